#include "eval/samples/report_samples.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace stoa::eval {
namespace {

constexpr std::string_view kErrorOf = "_stderr";
constexpr std::size_t kBins = 10;

Json newest_results(const fs::path& folder) {
  require<IoError>(fs::is_directory(folder), "'{}' is no folder of results (stoa eval run --output_path)",
                   folder.string());
  std::pair<std::string, fs::path> newest;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("results_") && name.ends_with(".json"))
      newest = std::max(newest, std::pair{name, entry.path()});
  }
  require<IoError>(!newest.first.empty(), "'{}' holds no results_*.json", folder.string());
  Json out = Json::parse(read_text(newest.second), nullptr, false);
  require<DataError>(out.is_object() && out.contains("results") && out["results"].is_object(),
                     "'{}': not the results of an evaluation", newest.second.string());
  return out;
}

// The whole number at the end of a name: 200 of "step=200", or none.
std::optional<double> number_at_end(std::string_view name) {
  std::size_t begin = name.size();
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9' && name.size() - begin < 15) --begin;
  if (begin == name.size()) return std::nullopt;
  return std::stod(std::string(name.substr(begin)));
}

std::vector<double> places_of(const std::vector<std::string>& names) {
  std::vector<double> out;
  for (const auto& name : names)
    if (const auto number = number_at_end(name); number && (out.empty() || *number > out.back()))
      out.push_back(*number);
  if (out.size() == names.size()) return out;
  out.clear();
  for (std::size_t i = 0; i < names.size(); ++i) out.push_back(static_cast<double>(i + 1));
  return out;
}

void add_figures(const Json& results, std::size_t at, std::size_t count, std::vector<ReportedFigure>& into) {
  for (const auto& [task, values] : results.items()) {
    if (!values.is_object()) continue;
    for (const auto& [key, value] : values.items()) {
      const std::size_t comma = key.find(',');
      if (comma == std::string::npos || !value.is_number()) continue;
      std::string metric = key.substr(0, comma);
      const bool error = std::string_view(metric).ends_with(kErrorOf);
      if (error) metric.resize(metric.size() - kErrorOf.size());
      const std::string filter = key.substr(comma + 1),
                        name = filter == "none" ? metric : metric + "," + filter;
      auto it = std::find_if(into.begin(), into.end(), [&, t = task](const ReportedFigure& f) {
        return f.task == t && f.name == name;
      });
      if (it == into.end())
        it = into.insert(into.end(), {task, name, std::vector<std::optional<double>>(count),
                                      std::vector<std::optional<double>>(count)});
      (error ? it->errors : it->values)[at] = value.get<double>();
    }
  }
  std::erase_if(into, [](const ReportedFigure& f) {
    return std::none_of(f.values.begin(), f.values.end(), [](const auto& v) { return v.has_value(); });
  });
}

void add_calibrations(const SampledRun& run, std::size_t at, std::size_t count,
                      std::vector<ReportedCalibration>& into) {
  for (const auto& [task, filters] : run.tasks) {
    if (filters.empty()) continue;
    const auto made = calibration_of(filters.begin()->second);
    if (!made) continue;
    auto it = std::find_if(into.begin(), into.end(),
                           [&, t = task](const ReportedCalibration& c) { return c.task == t; });
    if (it == into.end())
      it = into.insert(into.end(), {task, std::vector<std::optional<Calibration>>(count)});
    it->values[at] = made;
  }
}

// The first metric that is 0 or 1 of every document; "": none is.
std::string right_or_wrong(const std::map<std::int64_t, SampledDocument>& documents) {
  if (documents.empty()) return "";
  for (const auto& [name, unused] : documents.begin()->second.metrics)
    if (std::all_of(documents.begin(), documents.end(), [&, n = name](const auto& document) {
          const auto it = document.second.metrics.find(n);
          return it != document.second.metrics.end() && (it->second == 0 || it->second == 1);
        }))
      return name;
  return "";
}

std::string shown(const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : "-"; }

}  // namespace

std::optional<Calibration> calibration_of(const std::map<std::int64_t, SampledDocument>& documents) {
  Calibration out;
  out.bins.resize(kBins);
  for (const auto& [id, document] : documents) {
    const auto acc = document.metrics.find("acc");
    if (document.choices.size() < 2 || acc == document.metrics.end()) continue;
    const double best = *std::max_element(document.choices.begin(), document.choices.end());
    double sum = 0;
    for (const double likelihood : document.choices) sum += std::exp(likelihood - best);
    const double confidence = 1 / sum;
    Calibration::Bin& bin =
        out.bins[std::min(kBins - 1, static_cast<std::size_t>(confidence * static_cast<double>(kBins)))];
    ++bin.documents;
    bin.confidence += confidence;
    bin.right += acc->second;
    ++out.documents;
  }
  if (out.documents == 0) return std::nullopt;
  const auto all = static_cast<double>(out.documents);
  for (Calibration::Bin& bin : out.bins) {
    out.confidence += bin.confidence / all;
    out.right += bin.right / all;
    out.error += std::abs(bin.right - bin.confidence) / all;
    if (bin.documents == 0) continue;
    bin.confidence /= static_cast<double>(bin.documents);
    bin.right /= static_cast<double>(bin.documents);
  }
  return out;
}

SampleReport report_samples(const std::vector<fs::path>& folders) {
  SampleReport out;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    out.names.push_back(folders[i].lexically_normal().string());
    while (out.names.back().size() > 1 && out.names.back().ends_with('/')) out.names.back().pop_back();
    add_figures(newest_results(folders[i])["results"], i, folders.size(), out.figures);
    SampledRun run;
    try {
      run = read_samples(folders[i]);
    } catch (const IoError&) {
      continue;  // figures only
    }
    add_calibrations(run, i, folders.size(), out.calibrations);
    if (i + 1 < folders.size()) continue;
    for (const auto& [task, filters] : run.tasks)
      for (const auto& [filter, documents] : filters) {
        const std::string metric = right_or_wrong(documents);
        if (metric.empty()) continue;
        for (const auto& [id, document] : documents)
          if (document.metrics.at(metric) == 0)
            out.wrong.push_back({filter == "none" ? task : task + "," + filter, document});
      }
  }
  out.places = places_of(out.names);
  return out;
}

std::string to_text(const SampleReport& report) {
  std::string out;
  for (std::size_t i = 0; i < report.names.size(); ++i)
    out += fmt::format("[{}] {}\n", i + 1, report.names[i]);
  for (const ReportedFigure& f : report.figures) {
    out += fmt::format("{:32} {:20}", f.task, f.name);
    for (std::size_t i = 0; i < f.values.size(); ++i)
      out += fmt::format("  {}{}", shown(f.values[i]),
                         f.errors[i] ? fmt::format(" +- {:.4f}", *f.errors[i]) : "");
    out += "\n";
  }
  for (const ReportedCalibration& c : report.calibrations) {
    out += fmt::format("{:32} {:20}", c.task, "calibration error");
    for (const auto& value : c.values)
      out += "  " + shown(value ? std::optional(value->error) : std::nullopt);
    out += "\n";
  }
  return out + fmt::format("{} wrong answers in the last one\n", report.wrong.size());
}

std::string to_json(const SampleReport& report) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  Json out{{"evaluations", report.names},
           {"figures", Json::array()},
           {"calibration", Json::array()},
           {"wrong", Json::array()}};
  for (const ReportedFigure& f : report.figures) {
    Json one{{"task", f.task}, {"figure", f.name}, {"values", Json::array()}, {"stderr", Json::array()}};
    for (std::size_t i = 0; i < f.values.size(); ++i) {
      one["values"].push_back(number(f.values[i]));
      one["stderr"].push_back(number(f.errors[i]));
    }
    out["figures"].push_back(std::move(one));
  }
  for (const ReportedCalibration& c : report.calibrations) {
    Json one{{"task", c.task}, {"values", Json::array()}};
    for (const auto& value : c.values) {
      if (!value) {
        one["values"].push_back(nullptr);
        continue;
      }
      Json bins = Json::array();
      for (const Calibration::Bin& bin : value->bins)
        bins.push_back({{"documents", bin.documents}, {"confidence", bin.confidence}, {"right", bin.right}});
      one["values"].push_back({{"documents", value->documents},
                               {"confidence", value->confidence},
                               {"right", value->right},
                               {"error", value->error},
                               {"bins", bins}});
    }
    out["calibration"].push_back(std::move(one));
  }
  for (const WrongAnswer& w : report.wrong)
    out["wrong"].push_back({{"task", w.task},
                            {"document", w.document.id},
                            {"target", w.document.target},
                            {"answer", w.document.answer}});
  return dumped(out);
}

}  // namespace stoa::eval
