#!/bin/sh
# Records the test data beside it with a real gVisor: a folder before (before.tar.gz),
# and the upper layer of a sandbox in which act.py changed it (upper.tar.gz).
# Needs root, python3 and GNU tar:  unshare -m sh record.sh /path/to/runsc
set -eu
runsc=$1
here=$(cd "$(dirname "$0")" && pwd)
dir=/tmp/airlock-record
rm -rf $dir
mkdir -p $dir/bundle $dir/state
cp "$here/act.py" $dir/
cp "$here/config.json" $dir/bundle/
python3 "$here/before.py"
tar --xattrs --format=pax -C / -czf "$here/before.tar.gz" ${dir#/}/w
timeout 60 "$runsc" --root $dir/state --ignore-cgroups --network=none --overlay2=root:memory \
	run --bundle $dir/bundle recordrecordreco >$dir/out 2>$dir/err </dev/null &
for _ in $(seq 100); do
	if grep -q done $dir/out; then break; fi
	sleep 0.1
done
cat $dir/out $dir/err
"$runsc" --root $dir/state tar rootfs-upper --file $dir/upper.tar recordrecordreco
"$runsc" --root $dir/state kill recordrecordreco KILL
wait || true
umount $dir/state/null-netns 2>/dev/null || true
gzip -9 -n <$dir/upper.tar >"$here/upper.tar.gz"
rm -rf $dir
