# The CXL expander becomes a node of memory: a volatile region of all its bytes, then DAX, then system RAM (LAB_dax=1 stops at DAX).
set -e
for module in cxl_acpi cxl_pci cxl_mem cxl_port dax_cxl kmem; do modprobe $module; done
first() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -1; }
for try in 1 2 3 4 5 6 7 8 9 10; do memdev=$(cxl list -M | first memdev); [ -n "$memdev" ] && break; sleep 0.2; done
echo online_movable >/sys/devices/system/memory/auto_online_blocks
cxl create-region -m -t ram -d "$(cxl list -D -d root | first decoder)" -w 1 "$memdev"
for try in 1 2 3 4 5 6 7 8 9 10; do [ -d /sys/devices/system/node/node1 ] && break; sleep 0.2; done
if [ "$LAB_dax" = 1 ]; then daxctl reconfigure-device --mode=devdax --force all
elif [ "$(daxctl list | grep -c devdax)" -gt 0 ]; then daxctl reconfigure-device --mode=system-ram all; fi
daxctl list; cat /sys/devices/system/node/has_memory
