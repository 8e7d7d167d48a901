#!/bin/sh
# The first program of a machine of the lab: mount what is needed, then run the lab's own script from the share.
export PATH=/usr/sbin:/usr/bin HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /tmp; mount -t tmpfs run /run
[ -c /dev/null ] || mount -t devtmpfs dev /dev
mkdir -p /dev/shm /run/netns; mount -t tmpfs shm /dev/shm
for word in $(cat /proc/cmdline); do case $word in lab.*=*) name=${word#lab.}; export "LAB_${name%%=*}=${word#*=}";; esac; done
case $LAB_share in
  9p) modprobe 9pnet_virtio; modprobe 9p; mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro lab /mnt;;
  *) busybox mount -t hostfs -o "ro,$LAB_share" lab /mnt;;
esac
hostname lab; ip link set lo up
export PYTHONPATH=/mnt
sh "/mnt/foretrace/hil/lab/guest/$LAB_run.sh"
poweroff -f
