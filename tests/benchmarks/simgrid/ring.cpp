// Ranks in a ring: in every step a rank sends to the next one and receives from the one before.
//
//   ring PLATFORM HOSTS CHUNK STEPS DELAYS BUCKETS OUT [--cfg=...]
//
// HOSTS    one host a line, in the order of the ranks
// CHUNK    bytes of a message, a whole number
// STEPS    steps of one ring
// DELAYS   doubles [ranks][STEPS], how long a rank pauses before a step; "-": never
// BUCKETS  one time a line: rings of STEPS, one after the other, none begun before its time; "-": one ring, at once
// OUT      gets the time at which each rank has ended its last step
//
// A step is over for a rank when what it sends and what it receives has ended; nobody waits for anybody else.
#include "clock.hpp"

#include <cstdint>
#include <string>

namespace sg4 = simgrid::s4u;

struct Work {
  std::uint64_t chunk = 0;
  std::size_t num_steps = 0;
  std::vector<sg4::Host*> hosts;
  std::vector<double> delay_s;
  std::vector<double> bucket_s{0.0};
  std::vector<double> end_s;
};

static void take_part(Work& work, std::size_t rank)
{
  auto* own  = sg4::Mailbox::by_name("to-" + std::to_string(rank));
  auto* next = sg4::Mailbox::by_name("to-" + std::to_string((rank + 1) % work.hosts.size()));
  static char message;
  char* got = nullptr;
  for (const double begin_s : work.bucket_s) {
    sg4::this_actor::sleep_until(begin_s);
    for (std::size_t step = 0; step < work.num_steps; step++) {
      if (not work.delay_s.empty())
        sg4::this_actor::sleep_for(work.delay_s[rank * work.num_steps + step]);
      auto receiving = own->get_async<char>(&got);
      auto sending   = next->put_async(&message, work.chunk);
      receiving->wait();
      sending->wait();
    }
  }
  work.end_s[rank] = sg4::Engine::get_clock();
}

static std::vector<sg4::Host*> read_hosts(const char* path)
{
  std::vector<sg4::Host*> hosts;
  FILE* file = open_or_exit(path);
  char name[256];
  while (std::fscanf(file, "%255s", name) == 1)
    hosts.push_back(sg4::Host::by_name(name));
  std::fclose(file);
  return hosts;
}

static std::vector<double> read_times(const char* path)
{
  std::vector<double> times_s;
  FILE* file = open_or_exit(path);
  double time_s;
  while (std::fscanf(file, "%lf", &time_s) == 1)
    times_s.push_back(time_s);
  std::fclose(file);
  return times_s;
}

static std::vector<double> read_delays(const char* path, std::size_t count)
{
  std::vector<double> delay_s(count);
  FILE* file = open_or_exit(path);
  if (std::fread(delay_s.data(), sizeof(double), count, file) != count) {
    std::fprintf(stderr, "%s: fewer than %zu delays\n", path, count);
    std::exit(1);
  }
  std::fclose(file);
  return delay_s;
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  if (argc != 8) {
    std::fprintf(stderr, "usage: ring PLATFORM HOSTS CHUNK STEPS DELAYS BUCKETS OUT [--cfg=...]\n");
    return 2;
  }
  engine.load_platform(argv[1]);
  Work work;
  work.hosts     = read_hosts(argv[2]);
  work.chunk     = std::strtoull(argv[3], nullptr, 10);
  work.num_steps = std::strtoull(argv[4], nullptr, 10);
  if (std::string(argv[5]) != "-")
    work.delay_s = read_delays(argv[5], work.hosts.size() * work.num_steps);
  if (std::string(argv[6]) != "-")
    work.bucket_s = read_times(argv[6]);
  work.end_s.resize(work.hosts.size());
  for (std::size_t rank = 0; rank < work.hosts.size(); rank++)
    sg4::Actor::create("rank-" + std::to_string(rank), work.hosts[rank], [&work, rank]() { take_part(work, rank); });
  const double run_cpu_s = cpu_seconds_of_run(engine);
  report(work.end_s, argv[7], run_cpu_s);
}
