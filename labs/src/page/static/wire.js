// What every module needs: the texts, the server, and elements. Texts come from en.json alone.
const texts = await (await fetch("/static/en.json")).json();

/** A text with its places filled in: t("journey.next", { says }). */
export function t(key, values = {}) {
  const text = texts[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** Asks for a value; what went wrong is thrown in the server's words. */
export async function ask(path) {
  return read(await fetch(path, { headers: { accept: "application/json" } }));
}

/** Has something done. */
export async function act(path, body = {}) {
  const headers = { "content-type": "application/json" };
  return read(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function read(response) {
  const isValue = (response.headers.get("content-type") ?? "").includes("json");
  const value = isValue ? await response.json() : {};
  if (!response.ok) {
    const error = new Error(value.error ?? `${response.status} ${response.statusText}`);
    error.verdict = value.verdict;
    throw error;
  }
  return value;
}

/** Makes an element. Children that are strings become text, never markup. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** Microseconds as people read them: 12.3 ms, 4.21 s, 5 min 12 s. */
export function duration(micros) {
  if (micros < 1_000_000) return `${(micros / 1000).toFixed(1)} ms`;
  if (micros < 60_000_000) return `${(micros / 1_000_000).toFixed(2)} s`;
  const seconds = Math.round(micros / 1_000_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Remembers a choice for the next page of the book; a browser that forbids it forgets. */
export const memory = {
  get(key) {
    try {
      return sessionStorage.getItem(key);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      sessionStorage.setItem(key, value);
    } catch {
      // Nothing is lost but convenience.
    }
  },
};
