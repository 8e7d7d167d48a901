// Flows on a fat-tree in SimGrid (Debian: libsimgrid-dev), as a peer for benchmarks/peers/simgrid.py.
//
//   simgrid_flows K PROBLEM ROUTES ENDS --cfg=network/model:CM02 --cfg=network/crosstraffic:0
//
// PROBLEM: int64 n, then n times int64 from, int64 to, int64 bytes; all start at 0.
// ROUTES (written): int32 length and link numbers of every flow.  ENDS (written): n doubles, s.
#include <simgrid/s4u.hpp>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace s4u = simgrid::s4u;

template <typename T> T take(std::ifstream& in)
{
  T value;
  in.read(reinterpret_cast<char*>(&value), sizeof value);
  return value;
}

template <typename T> void put(std::ofstream& out, T value)
{
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

static double cpu_seconds()
{
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  const unsigned k = std::stoul(argv[1]);
  auto host_of = [](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
    auto* host = zone->create_host("h" + std::to_string(id), 1e9)->seal();
    return std::make_pair(host->get_netpoint(), static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
  };
  auto* tree = s4u::create_fatTree_zone("tree", nullptr, {3, {k / 2, k / 2, k}, {1, k / 2, k / 2}, {1, 1, 1}},
                                        s4u::ClusterCallbacks(host_of), 12.5e9, 0.0,
                                        s4u::Link::SharingPolicy::SPLITDUPLEX);
  tree->seal();
  std::vector<s4u::Host*> hosts(k * k * k / 4);
  for (auto* host : engine.get_all_hosts())
    hosts[std::stoul(host->get_name().substr(1))] = host;

  struct Flow {
    int64_t from, to, bytes;
  };
  std::ifstream in(argv[2], std::ios::binary);
  std::vector<Flow> flows(take<int64_t>(in));
  for (auto& flow : flows)
    flow = take<Flow>(in);

  std::ofstream routes(argv[3], std::ios::binary);
  std::unordered_map<const s4u::Link*, int32_t> numbers;
  for (const auto& flow : flows) {
    std::vector<s4u::Link*> links;
    hosts[flow.from]->route_to(hosts[flow.to], links, nullptr);
    put<int32_t>(routes, links.size());
    for (const auto* link : links)
      put<int32_t>(routes, numbers.emplace(link, numbers.size()).first->second);
  }
  routes.close(); // whole, even where the run is stopped

  std::vector<double> ends(flows.size());
  const double began = cpu_seconds();
  s4u::Actor::create("start", hosts[0], [&] {
    std::vector<s4u::CommPtr> sent;
    for (const auto& flow : flows)
      sent.push_back(s4u::Comm::sendto_async(hosts[flow.from], hosts[flow.to], flow.bytes));
    for (size_t i = 0; i < sent.size(); i++) {
      sent[i]->wait();
      ends[i] = sent[i]->get_finish_time();
      sent[i] = nullptr;
    }
  });
  engine.run();
  std::printf("%.6f\n", cpu_seconds() - began);

  std::ofstream out(argv[4], std::ios::binary);
  for (double end : ends)
    put(out, end);
}
