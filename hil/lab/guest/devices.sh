# LAB_ends RDMA devices rxe1..rxeN (soft-RoCE; LAB_provider=siw: siw1..siwN of soft-iWARP), each on a veth whose other end is a port of a bridge in a namespace of its own ("switch").
#
#   rxe1 on nic1 (10.7.0.1) -- port1 [bridge in namespace switch] port2 -- nic2 (10.7.0.2) on rxe2
#
# Up to Linux 6.12 soft-RoCE receives in the initial namespace only, so the NICs stay there and routing rules send what goes
# from one to another over the wire instead of through the loopback.  Neighbours are fixed: no address is looked up in a sample.
set -e
for module in veth bridge crc32_generic rdma_rxe siw 8021q ib_uverbs rdma_ucm sch_netem sch_tbf sch_fq_codel openvswitch; do modprobe -q $module 2>/dev/null || true; done
ends=${LAB_ends:-2} provider=${LAB_provider:-rxe} mtu=${LAB_mtu:-4200}
# LAB_wire makes this machine one of two hosts: one RDMA device (rxe1 on nic1) at a wire to the other.
if [ -n "$LAB_wire" ]; then
  hostname lab$LAB_host; modprobe virtio_net
  until [ -e /sys/class/net/eth0 ]; do sleep 0.1; done
  ip link set eth0 name nic1; ip link set nic1 mtu $mtu up; ip addr add 10.7.0.$LAB_host/24 dev nic1
  ip neigh replace 10.7.0.$((3 - LAB_host)) lladdr 02:00:00:00:00:0$((3 - LAB_host)) dev nic1 nud permanent
  rdma link add ${provider}1 type $provider netdev nic1
  exit
fi
mac() { printf '02:00:00:00:00:%02x' "$1"; }
local_over_the_wire() {
  for set in accept_local=1 rp_filter=0 arp_filter=0 arp_ignore=1 arp_announce=2; do
    echo ${set#*=} >/proc/sys/net/ipv4/conf/$1/${set%=*}
  done
}
ip netns add switch
ip -n switch link add bridge mtu $mtu type bridge ageing_time 1000000
ip -n switch link set bridge up
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
ip rule add pref 200 lookup local; ip rule del pref 0
for i in $(seq $ends); do
  ip link add nic$i mtu $mtu address $(mac $i) type veth peer name port$i mtu $mtu netns switch
  local_over_the_wire nic$i
  ip -n switch link set port$i master bridge; ip -n switch link set port$i up
  ip addr add 10.7.0.$i/32 dev nic$i; ip link set nic$i up
  ip route add 10.7.0.0/24 dev nic$i src 10.7.0.$i table $((100 + i))
  ip rule add pref $((100 + i)) iif lo from 10.7.0.$i lookup $((100 + i))
done
for i in $(seq $ends); do for j in $(seq $ends); do
  [ $i = $j ] || ip neigh replace 10.7.0.$j lladdr $(mac $j) dev nic$i nud permanent
done; done
# further NETWORK INTERFACE I PREF: a further address of end I in a network of its own, which goes over the wire like the first.
further() {
  ip addr add $1.$3/32 dev $2$3
  ip route add $1.0/24 dev $2$3 src $1.$3 table $((100 + $3))
  ip rule add pref $(($4 + $3)) iif lo from $1.$3 lookup $((100 + $3))
  for j in $(seq $ends); do [ $3 = $j ] || ip neigh replace $1.$j lladdr $(mac $j) dev $2$3 nud permanent; done
}
# LAB_addresses=2 gives each NIC a second address; LAB_vlan=ID a VLAN with an address too.  They are in the device's GID table.
[ "$LAB_addresses" != 2 ] || for i in $(seq $ends); do further 10.7.1 nic $i 150; done
[ -z "$LAB_vlan" ] || for i in $(seq $ends); do
  ip link add link nic$i name vlan$i type vlan id $LAB_vlan; ip link set vlan$i up; local_over_the_wire vlan$i
  further 10.7.2 vlan $i 170
done
for i in $(seq $ends); do bridge -n switch fdb replace $(mac $i) dev port$i master static; rdma link add $provider$i type $provider netdev nic$i; done
until [ "$(bridge -n switch link show | grep -c "state forwarding")" = $ends ]; do sleep 0.1; done
