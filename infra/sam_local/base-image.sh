#!/usr/bin/env bash
# Imports public.ecr.aws/lambda/python:3.13-x86_64, made from this machine's Python 3.13: for `sam local` on machines that can
# pull no images. Needs root, python3.13 on the PATH, and a Docker engine (DOCKER_HOST).
# It has the layout, variables and entry of the real one, but this machine's libraries, and few tools.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
version=3.13
image=public.ecr.aws/lambda/python:$version-x86_64
prefix=$(python$version -c 'import sys; print(sys.base_prefix)')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

mkdir -p "$root"/{proc,sys,dev,tmp,root,opt,run,etc/ssl/certs,etc/pki/tls/certs,usr/{bin,lib,lib64,sbin,share}} \
  "$root"/var/{task,runtime,rapid,tmp,lang/{bin,lib}}
for folder in bin lib lib64 sbin; do ln -s "usr/$folder" "$root/$folder"; done
chmod 1777 "$root"/tmp "$root"/var/tmp

# The interpreter, without what no function imports.
cp "$prefix/bin/python$version" "$root/var/lang/bin/"
ln -s "python$version" "$root/var/lang/bin/python3"
cp -a "$prefix"/lib/libpython"$version".so* "$root/var/lang/lib/" 2>/dev/null || true
unused=(__pycache__ "python$version"/{site-packages,test,idlelib,tkinter,ensurepip,'config-*'} '_tkinter*.so')
tar -C "$prefix/lib" "${unused[@]/#/--exclude=}" -c "python$version" | tar -C "$root/var/lang/lib" -x
mkdir "$root/var/lang/lib/python$version/site-packages"

# The runtime interface client in its newest form, as the managed runtime may bring another than the one we pin.
"$prefix/bin/python$version" -m pip install --quiet --disable-pip-version-check --no-compile --target "$root/var/runtime" awslambdaric
cp "$here/bootstrap" "$root/var/runtime/bootstrap"

# The tools that SAM's own Dockerfile runs, every library that any of this links to, and those of the C library, which
# compiled wheels may expect anywhere.
tools=(sh env cat chmod cp ls mkdir mv rm sleep true)
for tool in "${tools[@]}"; do cp -L "$(type -P "$tool")" "$root/usr/bin/$tool"; done
{
  printf "$root/usr/bin/%s\n" "${tools[@]}"
  echo "$root/var/lang/bin/python$version"
  find "$root"/var/lang/lib "$root"/var/runtime -name '*.so*' -type f
} | LD_LIBRARY_PATH=$root/var/lang/lib xargs ldd 2>/dev/null | awk '/=> \//{print $3} /ld-linux/{print $1}' | grep -v "^$root" |
  cat - <(/sbin/ldconfig -p | awk '/lib(c|m|dl|rt|util|pthread|resolv|gcc_s|stdc\+\+|nss_(dns|files))\.so\.[0-9]+ .*x86-64/{print $NF}') | sort -u |
  while read -r library; do
    target=$root/usr${library#/usr}
    mkdir -p "$(dirname "$target")"
    cp -L "$library" "$target"
  done
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/pki/tls/certs/ca-bundle.crt"
if [[ -d /usr/share/zoneinfo ]]; then cp -a /usr/share/zoneinfo "$root/usr/share/"; fi
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chown -R 0:0 "$root"

libraries=/var/lang/lib:/lib64:/usr/lib64:/var/runtime:/var/runtime/lib:/var/task:/var/task/lib:/opt/lib
tar -C "$root" -c . | docker import \
  -c 'ENV PATH=/var/lang/bin:/usr/local/bin:/usr/bin:/bin:/opt/bin' -c "ENV LD_LIBRARY_PATH=$libraries" \
  -c 'ENV LANG=en_US.UTF-8' -c 'ENV TZ=:/etc/localtime' -c "ENV AWS_EXECUTION_ENV=AWS_Lambda_python$version" \
  -c 'ENV LAMBDA_TASK_ROOT=/var/task' -c 'ENV LAMBDA_RUNTIME_DIR=/var/runtime' \
  -c 'WORKDIR /var/task' -c 'ENTRYPOINT ["/var/runtime/bootstrap"]' - "$image"
