# Two soft-RoCE devices behind a bridge, then the agent on the serial line until it ends.
sh /mnt/foretrace/hil/lab/guest/devices.sh >/dev/console 2>&1
[ "$LAB_cxl" = 1 ] && sh /mnt/foretrace/hil/lab/guest/cxl.sh >/dev/console 2>&1
for port in /sys/class/virtio-ports/*/name; do
  [ "$(cat "$port" 2>/dev/null)" = foretrace ] && line=/dev/$(basename "$(dirname "$port")")
done
if [ -z "$line" ]; then line=/dev/ttyS0; fi
[ "$line" = /dev/ttyS0 ] && stty raw -echo </dev/ttyS0
exec 3<>"$line"  # such a port is opened once only
python3 -m foretrace.hil.agent --stdio <&3 >&3 2>/dev/console
