#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optimized/bench/results.hpp"

namespace posproof::bench {
namespace {

constexpr double kWidth = 480, kMargin = 10;
constexpr double kLetter = 0.6;  // of the font size, on average

struct Axis {
  double from, to, low, high;  // pixels, values

  double at(double value) const {
    const double part = std::log(value / low) / std::log(high / low);
    return from + std::clamp(part, 0.0, 1.0) * (to - from);
  }
};

struct Box {
  double left, top, right, bottom;

  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

double width(const std::string& text, double size) {
  const auto letters =
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return kLetter * size * static_cast<double>(letters);
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else
      result += c;
  }
  return result;
}

class Svg {
 public:
  void text(double x, double y, const std::string& kind, const std::string& content,
            const char* anchor = "start") {
    body_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n",
                    x, y, kind, anchor, escaped(content));
  }
  /// Along a line that rises by `angle`.
  void rising_text(double x, double y, double angle, const std::string& content) {
    body_ += fmt::format(
        "<text transform=\"translate({:.1f} {:.1f}) rotate({:.1f})\" class=\"small\">{}</text>\n",
        x, y, -angle, escaped(content));
  }
  void line(double x1, double y1, double x2, double y2, const std::string& kind) {
    body_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
        x2, y2, kind);
  }
  void dot(double x, double y, double r, const std::string& kind) {
    body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\"/>\n", x, y,
                         r, kind);
  }

  void append(const Svg& other) { body_ += other.body_; }

  std::string whole(double height) const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" "
               "width=\"{0}\" "
               "height=\"{1:.0f}\" font-family=\"system-ui, sans-serif\">\n",
               kWidth, height) +
           "<style>\n"
           ".paper{fill:#ffffff}.title{fill:#1f2328;font-size:14px;font-weight:600}\n"
           ".name{fill:#1f2328;font-size:10.5px}.small{fill:#59636e;font-size:9.5px}\n"
           ".number{fill:#0a52c4;font-size:9.5px;font-weight:600}\n"
           ".grid{stroke:#d9dee4;stroke-width:1}.floor{stroke:#1f2328;stroke-width:1.5}\n"
           ".leader{stroke:#9aa4ae;stroke-width:.7}.need{stroke:#b3261e;stroke-width:2}\n"
           ".roof{stroke:#59636e;stroke-width:1.5}\n"
           ".ours{fill:#0a52c4}.peer{fill:#ffffff;stroke:#59636e;stroke-width:1.3}\n"
           "@media (prefers-color-scheme:dark){\n"
           ".paper{fill:#0d1117}.title{fill:#e6edf3}.name{fill:#e6edf3}.small{fill:#9da7b1}\n"
           ".number{fill:#6cabff}.grid{stroke:#2b323b}.floor{stroke:#e6edf3}\n"
           ".leader{stroke:#59636e}.need{stroke:#ff7b72}.roof{stroke:#9da7b1}\n"
           ".ours{fill:#6cabff}.peer{fill:#0d1117;stroke:#9da7b1}}\n"
           "</style>\n" +
           fmt::format("<rect width=\"{}\" height=\"{:.0f}\" class=\"paper\"/>\n", kWidth, height) +
           body_ + "</svg>\n";
  }

 private:
  std::string body_;
};

std::string spaced(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  const std::string word = "interleaved";
  if (const std::size_t at = name.find(word); at != std::string::npos)
    name.replace(at, word.size(), "interl.");
  return name;
}

std::string short_name(const std::string& peer) {
  return peer == "ONNX Runtime" ? "ONNX R." : peer == "running product" ? "run. product" : peer;
}

struct Label {
  double x, centre;
  std::string text;
  std::size_t lane;
};

/// One row: time over the floor of ours and of every peer, labels below in as many lanes as it
/// takes.
double draw_row(Svg& svg, const Result& result, const Axis& axis, double top) {
  const double floor = result.floor().min_ns(), y = top + 7;
  std::vector<Label> labels;
  std::vector<double> ends;
  std::vector<const Measured*> peers;
  for (const Measured& peer : result.peers) peers.push_back(&peer);
  std::sort(peers.begin(), peers.end(),
            [](const Measured* a, const Measured* b) { return a->min_ns() < b->min_ns(); });
  for (const Measured* peer : peers) {
    const double ratio = peer->min_ns() / floor, x = axis.at(ratio);
    std::string text = short_name(peer->name);
    if (ratio > axis.high) text += " " + number_text(ratio);
    const double half = width(text, 9.5) / 2;
    const double centre = std::clamp(x, axis.from + half, kWidth - 4 - half);
    std::size_t lane = 0;
    while (lane < ends.size() && ends[lane] > centre - half - 4) ++lane;
    if (lane == ends.size()) ends.push_back(0);
    ends[lane] = centre + half;
    labels.push_back({x, centre, text, lane});
  }
  svg.text(axis.from - 8, y + 3.5, "name", spaced(result.work.name), "end");
  for (const Label& label : labels)
    if (label.lane > 0)
      svg.line(label.x, y + 3, label.centre, y + 5 + 10.5 * static_cast<double>(label.lane),
               "leader");
  for (const Label& label : labels)
    svg.text(label.centre, y + 13 + 10.5 * static_cast<double>(label.lane), "small", label.text,
             "middle");
  for (const Label& label : labels) svg.dot(label.x, y, 3, "peer");
  for (const Required& required : result.work.required) {
    double limit = required.limit;
    const Measured* against = nullptr;
    if (required.against == "floor") against = &result.floor();
    for (const Measured& each : result.floors)
      if (each.name == required.against) against = &each;
    if (against == nullptr) continue;
    if (required.sense == Required::Sense::speed) limit = 1 / limit;
    const double x = axis.at(limit * against->min_ns() / floor);
    svg.line(x, y - 5, x, y + 5, "need");
  }
  const double ours = result.to_floor(), x = axis.at(ours);
  svg.dot(x, y, 4, "ours");
  if (ours > axis.high) svg.text(x - 7, y + 3.5, "number", number_text(ours), "end");
  return top + 15 + 10.5 * static_cast<double>(ends.size()) + (ends.empty() ? 0 : 2);
}

double draw_distances(Svg& svg, const Run& run, double top) {
  const Axis axis{164, kWidth - 16, 0.7, 100};
  svg.text(kMargin, top + 16, "title", "Time over the floor, the cheapest program that moves");
  svg.text(kMargin, top + 33, "title", "the same bytes: left is faster");
  svg.dot(kMargin + 4, top + 47, 4, "ours");
  svg.text(kMargin + 12, top + 50.5, "name", "posproof, exact");
  svg.dot(kMargin + 108, top + 47, 3, "peer");
  svg.text(kMargin + 115, top + 50.5, "name", "peer");
  svg.line(kMargin + 158, top + 42, kMargin + 158, top + 52, "need");
  svg.text(kMargin + 164, top + 50.5, "name", "at most, required");
  const double head = top + 70;
  Svg rows;
  double y = head + 8;
  for (const Result& result : run.results) y = draw_row(rows, result, axis, y);
  for (const double tick : {1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0}) {
    svg.line(axis.at(tick), head + 3, axis.at(tick), y, tick == 1 ? "floor" : "grid");
    for (const double level : {head, y + 12})
      svg.text(axis.at(tick), level, "small", tick == 1 ? "1 = floor" : fmt::format("{}", tick),
               "middle");
  }
  svg.append(rows);
  return y + 14;
}

/// Points with numbers, that a list below explains.
double draw_roofline(Svg& svg, const Run& run, double top) {
  struct Point {
    double intensity, rate;
    std::string number, name;
  };
  std::vector<Point> points;
  double lowest = run.roofs.gflops;
  for (const Result& result : run.results) {
    if (result.work.operations == 0 || result.ours.min_ns() < 1e3) continue;
    points.push_back({result.work.operations / result.work.bytes,
                      result.work.operations / result.ours.min_ns(),
                      std::to_string(points.size() + 1), spaced(result.work.name)});
    lowest = std::min(lowest, points.back().rate);
  }
  if (points.empty()) return top;
  const Axis x{44, kWidth - 16, 0.05, 5};
  const double bottom = top + 400;
  const Axis y{bottom, top + 44, std::exp2(std::floor(std::log2(lowest))),
               std::exp2(std::ceil(std::log2(1.3 * run.roofs.gflops)))};
  svg.text(kMargin, top + 16, "title", "Roofline: GFLOP/s over operations per byte");
  for (double tick = 0.0625; tick <= 4; tick *= 2) {
    svg.line(x.at(tick), y.to, x.at(tick), bottom, "grid");
    svg.text(x.at(tick), bottom + 13, "small",
             tick < 1 ? fmt::format("1/{}", 1 / tick) : fmt::format("{}", tick), "middle");
  }
  for (double tick = y.low; tick <= y.high; tick *= 2) {
    svg.line(x.from, y.at(tick), x.to, y.at(tick), "grid");
    svg.text(x.from - 5, y.at(tick) + 3, "small", fmt::format("{}", tick), "end");
  }
  svg.text(x.to, bottom + 26, "small", "floating-point operations per byte moved", "end");
  std::vector<Box> taken;
  const auto roof = [&](double gbps, const std::string& name) {
    const double from = std::max(x.low, y.low / gbps),
                 to = std::min(x.high, run.roofs.gflops / gbps);
    svg.line(x.at(from), y.at(from * gbps), x.at(to), y.at(to * gbps), "roof");
    for (double part = 0; part <= 1; part += 0.005) {
      const double at = from * std::pow(to / from, part);
      taken.push_back({x.at(at) - 1, y.at(at * gbps) - 1, x.at(at) + 1, y.at(at * gbps) + 1});
    }
    const double rise =
        (y.from - y.to) / std::log(y.high / y.low) / ((x.to - x.from) / std::log(x.high / x.low));
    const double length = width(name, 9.5) / std::hypot(1, rise);
    const double left = x.at(from) + 6, base = y.at(from * gbps) - 6 * rise - 5;
    svg.rising_text(left, base, std::atan(rise) * 180 / 3.14159265, name);
    for (double along = 0; along <= length; along += 4)
      taken.push_back(
          {left + along - 8, base - rise * along - 9, left + along + 2, base - rise * along + 2});
  };
  roof(run.roofs.memory_gbps, "memory, " + number_text(run.roofs.memory_gbps) + " GB/s");
  roof(run.roofs.cache_gbps, "L2, " + number_text(run.roofs.cache_gbps) + " GB/s");
  const double ceiling = y.at(run.roofs.gflops);
  svg.line(x.at(run.roofs.gflops / run.roofs.cache_gbps), ceiling, x.to, ceiling, "roof");
  svg.text(x.to, ceiling - 4, "small",
           "multiply-add, " + number_text(run.roofs.gflops) + " GFLOP/s", "end");
  for (const Point& point : points) {
    const double px = x.at(point.intensity), py = y.at(point.rate);
    svg.dot(px, py, 3.2, "ours");
    taken.push_back({px - 4, py - 4, px + 4, py + 4});
  }
  for (const Point& point : points) {
    const double px = x.at(point.intensity), py = y.at(point.rate);
    const double wide = width(point.number, 9.5) + 1;
    Box best{};
    double distance = 0;
    bool is_free = false;
    for (distance = 9; distance < 70 && !is_free; distance += 3)
      for (int turn = 0; turn < 16 && !is_free; ++turn) {
        const double angle = 3.14159265 / 8 * turn;
        const double cx = px + distance * std::cos(angle), cy = py + distance * std::sin(angle);
        best = {cx - wide / 2, cy - 5, cx + wide / 2, cy + 5};
        is_free = best.left > x.from && best.right < kWidth && best.bottom < bottom &&
                  std::none_of(taken.begin(), taken.end(),
                               [&](const Box& box) { return box.meets(best); });
      }
    const double cx = (best.left + best.right) / 2, cy = (best.top + best.bottom) / 2;
    if (distance > 13) svg.line(px, py, cx, cy, "leader");
    svg.text(cx, cy + 3.5, "number", point.number, "middle");
    taken.push_back(best);
  }
  const std::size_t rows = (points.size() + 1) / 2;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double left = i < rows ? kMargin : kWidth / 2 + 6;
    const double line = bottom + 48 + 14 * static_cast<double>(i % rows);
    svg.text(left + 16, line, "number", points[i].number, "end");
    svg.text(left + 22, line, "name", points[i].name);
  }
  return bottom + 48 + 14 * static_cast<double>(rows);
}

}  // namespace

std::string picture(const Run& run) {
  Svg svg;
  double y = draw_distances(svg, run, 4);
  y = draw_roofline(svg, run, y + 22);
  svg.text(kMargin, y + 8, "small",
           run.cpu + ", " + run.isa + ", one thread, " + run.date + ", posproof " + run.version);
  return svg.whole(y + 18);
}

}  // namespace posproof::bench
