// What both programs print: how long the simulation itself took, and every completion time with all its digits.
#pragma once
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

/** Run the simulation that has been set up; return the CPU seconds of that alone. */
inline double cpu_seconds_of_run(simgrid::s4u::Engine& engine)
{
  const std::clock_t start = std::clock();
  engine.run();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/** Write one time per line, so that reading it gives the same double, and the last one with the CPU time to stdout. */
inline void report(const std::vector<double>& end_s, const char* path, double run_cpu_s)
{
  FILE* out = std::fopen(path, "w");
  if (out == nullptr) {
    std::perror(path);
    std::exit(1);
  }
  double last_s = 0.0;
  for (const double time_s : end_s) {
    std::fprintf(out, "%.17g\n", time_s);
    if (time_s > last_s)
      last_s = time_s;
  }
  std::fclose(out);
  std::printf("{\"simulated_s\": %.17g, \"run_cpu_s\": %.6f}\n", last_s, run_cpu_s);
}

/** Open a file for reading, or end with the reason. */
inline FILE* open_or_exit(const char* path)
{
  FILE* file = std::fopen(path, "rb");
  if (file == nullptr) {
    std::perror(path);
    std::exit(1);
  }
  return file;
}
