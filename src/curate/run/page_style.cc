#include "curate/run/page_style.h"

#include <fmt/format.h>

namespace stoa::curate {
namespace {

constexpr std::string_view kStyle = R"(:root{color-scheme:light dark;
--paper:#fff;--panel:#f4f4f4;--ink:#1d1c1a;--soft:#666;--line:#ddd;--accent:#2f5fb3;--found:#fd6}
@media(prefers-color-scheme:dark){:root{
--paper:#16171a;--panel:#1e2024;--ink:#e8e6e1;--soft:#9a978f;--line:#34373d;--accent:#7fa9ee;--found:#750}}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;max-width:70em;margin:1.5em auto;padding:0 1em;
background:var(--paper);color:var(--ink)}
h1{font-size:1.7em}h2{margin-top:1.8em}a{color:var(--accent)}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:.25em .6em;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--soft)}
td:first-child,th:first-child{text-align:left}
.flow td:last-child{width:30%;min-width:6em}
.flow td div{background:var(--accent);height:.8em;border-radius:2px}
.overlap td,.overlap th{padding:.2em .35em}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--panel);padding:.6em;border-radius:4px}
pre i{color:var(--soft);font-style:normal}
mark{background:var(--found);color:inherit}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(18em,1fr));gap:1.2em}
.copies{display:flex;flex-wrap:wrap;gap:1em}.copies div{flex:1 1 20em;min-width:0}
figure{margin:0;min-width:0}
figcaption,figure p{font-size:.8em;margin:0;overflow-wrap:anywhere}figure p{color:var(--soft)}
svg{display:block;width:100%;height:auto;border-bottom:1px solid var(--line)}
rect{fill:var(--accent);fill-opacity:.45}
polyline{fill:none;stroke:var(--accent);stroke-width:1.5}
line{stroke:var(--ink);stroke-width:1.2;stroke-dasharray:4 3}
form{display:flex;flex-wrap:wrap;gap:.5em;align-items:center}
@media(max-width:40em){td:first-child,th:first-child{white-space:normal;overflow-wrap:anywhere;min-width:8em}
td,th{padding:.25em .35em;font-size:.85em}.flow td:last-child,.flow th:last-child{display:none}}
input,select,button{font:inherit;padding:.25em .5em}input{flex:1 1 12em;max-width:30em})";

}  // namespace

std::string page_head(std::string_view title) {
  return fmt::format(
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{}</title><style>{}</style>\n",
      title, kStyle);
}

}  // namespace stoa::curate
