// An informer and a watch of @kubernetes/client-node: what they saw is what happened.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import assert from 'node:assert/strict';

// The packages are beside the directory that this runs in, not beside this file.
const require = createRequire(path.join(process.cwd(), 'package.json'));
const k8s = require('@kubernetes/client-node');
const version = JSON.parse(
    readFileSync(path.join(process.cwd(), 'node_modules/@kubernetes/client-node/package.json')),
).version;
console.log('node', process.version, '@kubernetes/client-node', version);

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const namespace = 'node';
const map = (name, a) => ({ metadata: { name, labels: { app: 'web' } }, data: { a } });

// Waits for the next thing that happens to be so; a time limit makes a hang a failure.
async function until(what, condition) {
    const end = Date.now() + 20000;
    while (!(await condition())) {
        assert(Date.now() < end, `waited in vain until ${what}`);
        await new Promise((done) => setTimeout(done, 20));
    }
}

await core.createNamespace({ body: { metadata: { name: namespace } } });
await core.createNamespacedConfigMap({ namespace, body: map('before', '1') });

const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: 'app=web' });
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list, 'app=web');
const seen = [];
let starts = 0;
for (const verb of ['add', 'update', 'delete']) {
    informer.on(verb, (object) => seen.push(`${verb} ${object.metadata.name} ${object.data.a}`));
}
informer.on('connect', () => { starts += 1; });
informer.on('error', (error) => { seen.push(`error ${error}`); });
await informer.start();
await until('the first list is seen', () => seen.length === 1 && starts === 1);
await core.createNamespacedConfigMap({ namespace, body: map('after', '1') });
await until('the watch runs', () => seen.length === 2);

const found = await core.readNamespacedConfigMap({ name: 'after', namespace });
found.data.a = '2';
await core.replaceNamespacedConfigMap({ name: 'after', namespace, body: found });
await assert.rejects(core.replaceNamespacedConfigMap({ name: 'after', namespace, body: found }), { code: 409 });
await core.patchNamespacedConfigMap({ name: 'before', namespace, body: [{ op: 'replace', path: '/data/a', value: '3' }] });
const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
await core.patchNamespacedConfigMap({ name: 'before', namespace, body: { data: { a: '4' } } }, merge);
const apply = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply);
const applied = { apiVersion: 'v1', kind: 'ConfigMap', ...map('applied', '5') };
await core.patchNamespacedConfigMap({ name: 'applied', namespace, fieldManager: 'node', body: applied }, apply);
await core.deleteNamespacedConfigMap({ name: 'after', namespace });
const told = ['add before 1', 'add after 1', 'update after 2', 'update before 3', 'update before 4', 'add applied 5', 'delete after 2'];
await until('all of it is seen', () => seen.length >= told.length);
assert.deepEqual(seen, told);
assert.deepEqual(informer.list(namespace).map((o) => `${o.metadata.name} ${o.data.a}`).sort(), ['applied 5', 'before 4']);
await informer.stop();

// A watch from too old a version says so, as an ERROR event with a Status.
const watch = new k8s.Watch(config);
const events = [];
await new Promise((done) => watch.watch(
    `/api/v1/namespaces/${namespace}/configmaps`, { resourceVersion: '1', timeoutSeconds: 5 },
    (type, object) => events.push([type, object.code, object.reason]), done));
assert.deepEqual(events, [['ERROR', 410, 'Expired']]);

// Objects of any kind, through discovery.
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const manifest = k8s.loadAllYaml(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ${namespace}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: 'nginx:1.25'}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: node-reader}
rules: [{apiGroups: [''], resources: [nodes], verbs: [get]}]
`);
for (const object of manifest) {
    const made = await objects.create(object);
    assert.equal((await objects.read(made)).metadata.uid, made.metadata.uid);
}
await assert.rejects(objects.create(manifest[0]), { code: 409 });
assert.equal((await objects.list('apps/v1', 'Deployment', namespace)).items.length, 1);
assert.equal((await objects.delete(manifest[1])).status, 'Success');
await assert.rejects(objects.read(manifest[1]), { code: 404 });
console.log('passed');
