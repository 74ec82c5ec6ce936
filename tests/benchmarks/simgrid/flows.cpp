// Messages that start at given times, each on its own.
//
//   flows PLATFORM FLOWS OUT [--cfg=...]
//
// FLOWS    lines "start_s source destination bytes" in the order of their starts; bytes are a whole number
// OUT      gets the time at which each message has arrived
//
// With CM02 and its corrections off, a message has the weight 1 / (latency of its route) where it shares a link.
#include "clock.hpp"

#include <cinttypes>
#include <string>

namespace sg4 = simgrid::s4u;

struct Flow {
  double start_s;
  sg4::Host* source;
  sg4::Host* destination;
  std::uint64_t num_bytes;
};

static std::vector<Flow> read_flows(const char* path)
{
  std::vector<Flow> flows;
  FILE* file = open_or_exit(path);
  double start_s;
  char source[256];
  char destination[256];
  std::uint64_t num_bytes;
  while (std::fscanf(file, "%lf %255s %255s %" SCNu64, &start_s, source, destination, &num_bytes) == 4)
    flows.push_back({start_s, sg4::Host::by_name(source), sg4::Host::by_name(destination), num_bytes});
  std::fclose(file);
  return flows;
}

static void send_all(const std::vector<Flow>& flows, std::vector<double>& end_s)
{
  std::vector<sg4::CommPtr> sent;
  sent.reserve(flows.size());
  for (const Flow& flow : flows) {
    sg4::this_actor::sleep_until(flow.start_s);
    sent.push_back(sg4::Comm::sendto_async(flow.source, flow.destination, flow.num_bytes));
  }
  sg4::Comm::wait_all(sent);
  for (const auto& comm : sent)
    end_s.push_back(comm->get_finish_time());
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  if (argc != 4) {
    std::fprintf(stderr, "usage: flows PLATFORM FLOWS OUT [--cfg=...]\n");
    return 2;
  }
  engine.load_platform(argv[1]);
  const std::vector<Flow> flows = read_flows(argv[2]);
  std::vector<double> end_s;
  end_s.reserve(flows.size());
  sg4::Actor::create("driver", engine.get_all_hosts().front(), [&]() { send_all(flows, end_s); });
  const double run_cpu_s = cpu_seconds_of_run(engine);
  report(end_s, argv[3], run_cpu_s);
}
