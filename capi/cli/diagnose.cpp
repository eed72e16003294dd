// quire diagnose: prints the report of diagnose.h about this machine.
#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/terminal.h"

namespace quire::cli {

Command add_diagnose(CLI::App& root) {
  auto json = std::make_shared<bool>(false);
  CLI::App* app =
      root.add_subcommand("diagnose", "Show the CPU, the backends, and why a backend cannot be used");
  app->add_flag("--json", *json, "Print one JSON object on standard output");
  return {app, [json](Interrupt&) {
            const int32_t format = *json ? QUIRE_DIAGNOSE_JSON : QUIRE_DIAGNOSE_TEXT;
            std::string report = text_of(quire_diagnose, format);
            if (*json) {
              print_json(Json::parse(report));
              return int{kExitOk};
            }
            if (report.empty() || report.back() != '\n') report += '\n';
            print(report);
            return int{kExitOk};
          }};
}

}  // namespace quire::cli
