#include "watch/report_assets.h"

namespace stoa::watch {

const std::string_view kReportStyle = R"css(
:root{color-scheme:light dark;--paper:#faf9f6;--card:#fff;--ink:#1d1f23;--soft:#6a6f78;--edge:#e4e1d9;--grid:#ece9e2;
--c1:#2b66d9;--c2:#d9731a;--c3:#7b52c4;--c4:#1d8a66;--c5:#b53a74;--good:#1d8a66;--bad:#c2372e;--warm:#b7791f}
@media(prefers-color-scheme:dark){:root{--paper:#14161a;--card:#1c1f25;--ink:#e7e6e2;--soft:#979da8;--edge:#2c313a;--grid:#272b33;
--c1:#74a3ff;--c2:#f39b4d;--c3:#b396f0;--c4:#55c9a0;--c5:#ef7fb2;--good:#55c9a0;--bad:#ff7d73;--warm:#e5b454}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1120px;margin:0 auto;padding:28px 20px 60px}
header{margin-bottom:20px}
h1{font-size:30px;line-height:1.2;margin:0;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{font-size:19px;margin:40px 0 12px;letter-spacing:-.01em}
h3{font-size:15px;margin:22px 0 8px}
.quiet{color:var(--soft)}p{margin:6px 0}
.badge{display:inline-block;vertical-align:middle;margin-left:12px;padding:3px 12px;border-radius:99px;font-size:14px;
font-weight:600;letter-spacing:0;color:var(--state);background:color-mix(in srgb,var(--state) 14%,transparent)}
.done{--state:var(--good)}.stopped{--state:var(--warm)}.failed{--state:var(--bad)}.running{--state:var(--c1)}
.detail{border-left:3px solid var(--state);padding:2px 0 2px 12px;margin:12px 0;white-space:pre-wrap;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin-top:18px}
.tile,figure,.card{background:var(--card);border:1px solid var(--edge);border-radius:10px}
.tile{padding:10px 14px}.tile span{display:block;font-size:12.5px;color:var(--soft)}
.tile b{font-size:21px;font-weight:600;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.tile small{display:block;color:var(--soft);font-size:12.5px}
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:14px}.charts .wide{grid-column:1/-1}
figure{margin:0;padding:12px 12px 6px;position:relative}
figcaption{font-size:14px;padding:0 4px 6px}.unit{color:var(--soft)}
.views{position:relative}.views>input{position:absolute;opacity:0;pointer-events:none}
.choice{position:absolute;right:14px;top:10px;z-index:1;font-size:13px;color:var(--soft)}
.choice label{cursor:pointer;padding:2px 8px;border-radius:99px}
#loss-linear:checked~.choice label:first-child,#loss-log:checked~.choice label:last-child{color:var(--ink);background:var(--grid)}
#loss-linear:focus-visible~.choice label:first-child,#loss-log:focus-visible~.choice label:last-child{outline:2px solid var(--c1)}
#loss-linear:checked~.log,#loss-log:checked~.linear,.phone{display:none}
.key{margin-left:14px;color:var(--soft);white-space:nowrap}.key i{display:inline-block;width:14px;height:3px;border-radius:2px;
background:var(--k);vertical-align:middle;margin-right:5px}
.c1{--k:var(--c1)}.c2{--k:var(--c2)}.c3{--k:var(--c3)}.c4{--k:var(--c4)}.c5{--k:var(--c5)}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{fill:var(--soft);font-size:11.5px;font-variant-numeric:tabular-nums}
.grid{stroke:var(--grid);stroke-width:1}.restart{stroke:var(--soft);stroke-dasharray:3 4;stroke-width:1.3}
.line{fill:none;stroke:var(--k);stroke-width:1.8;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.line.faint{opacity:.3;stroke-width:1.1}.dot{fill:var(--k)}
.cursor{stroke:var(--soft);stroke-width:1;pointer-events:none}
.tip{position:absolute;z-index:2;pointer-events:none;background:var(--card);border:1px solid var(--edge);border-radius:8px;
padding:6px 10px;font-size:12.5px;box-shadow:0 4px 16px #0003;white-space:nowrap;font-variant-numeric:tabular-nums}
.tip i{display:inline-block;width:8px;height:8px;border-radius:50%;background:var(--k);margin-right:6px}
.card{padding:14px 16px;margin-bottom:12px;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{font-weight:600;text-align:left;color:var(--soft);font-size:12.5px}
td,th{padding:5px 10px 5px 0;vertical-align:top;border-bottom:1px solid var(--grid)}tr:last-child td{border-bottom:0}
.label.key{color:inherit}.n{text-align:right;white-space:nowrap}.label{white-space:nowrap}
.bar{width:45%;min-width:140px}.bar i{display:block;height:9px;border-radius:3px;margin:4px 0;background:var(--k);min-width:1px}
.bar i+i{margin-top:2px;height:5px;opacity:.45}
.stack{display:flex;height:26px;border-radius:6px;overflow:hidden;margin:4px 0 10px;gap:2px}.stack i{background:var(--k);min-width:2px}
.sample{display:grid;grid-template-columns:90px minmax(0,1fr);gap:14px;padding:9px 0;border-bottom:1px solid var(--grid)}
.sample:last-child{border-bottom:0}.sample>b{color:var(--soft);font-weight:500;font-variant-numeric:tabular-nums}
.text{white-space:pre-wrap;overflow-wrap:anywhere;font-family:ui-serif,Georgia,"Times New Roman",serif;font-size:15.5px}
.text u{text-decoration:none;color:var(--soft)}
pre,code{font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace}pre{margin:8px 0 0;white-space:pre-wrap;overflow-wrap:anywhere}
details>summary{cursor:pointer;color:var(--soft)}details[open]>summary{margin-bottom:6px}
.stage{display:flex;align-items:center;gap:10px;margin:5px 0}.stage>span{flex:0 0 74px;color:var(--soft);font-size:13px}
.layers{display:flex;flex-wrap:wrap;gap:3px}.layers i{width:22px;height:22px;border-radius:4px;background:color-mix(in srgb,var(--k) 26%,transparent);
border:1px solid var(--k);font:10px/20px system-ui,sans-serif;text-align:center;font-style:normal}
.actions{display:flex;gap:2px;flex-wrap:wrap}.actions i{height:22px;border-radius:3px;font:10.5px/22px ui-monospace,Menlo,monospace;
font-style:normal;text-align:center;padding:0 4px;min-width:26px;background:color-mix(in srgb,var(--k) 30%,transparent)}
.actions i.big{min-width:52px}
footer{margin-top:40px;color:var(--soft);font-size:13px}
@media(max-width:720px){.charts{grid-template-columns:minmax(0,1fr)}svg text{font-size:17px}.sample{grid-template-columns:1fr;gap:2px}h1{font-size:25px}
.desk{display:none}.phone{display:block}.choice{position:static;text-align:right;margin-bottom:6px}.badge{margin-left:8px}
.card{padding:12px}.label{white-space:normal}td,th{padding-right:8px;font-size:13px}th:last-child,td:last-child{padding-right:0}
td{overflow-wrap:anywhere}.n{overflow-wrap:normal}code{font-size:12px}.bar{width:22%;min-width:36px}}
@media print{.tip,.cursor{display:none}figure,.card,.tile{break-inside:avoid}}
)css";

const std::string_view kReportScript = R"js(
for(const svg of document.querySelectorAll("svg[data-chart]")){
  const d=JSON.parse(svg.dataset.chart),[l,t,r,b]=d.b,fig=svg.parentNode,ns="http://www.w3.org/2000/svg";
  const px=v=>l+(v-d.x[0])/(d.x[1]-d.x[0])*(r-l);
  const py=v=>b-(d.log?Math.log(v/d.y[0])/Math.log(d.y[1]/d.y[0]):(v-d.y[0])/(d.y[1]-d.y[0]))*(b-t);
  const nearest=(p,x)=>{let a=0,z=p.length-1;while(z-a>1){const m=(a+z)>>1;p[m][0]<x?a=m:z=m}
    return Math.abs(p[a][0]-x)<=Math.abs(p[z][0]-x)?p[a]:p[z]};
  let group,tip;
  const leave=()=>{group?.remove();tip?.remove();group=tip=null};
  svg.addEventListener("pointermove",e=>{
    const box=svg.getBoundingClientRect(),scale=svg.viewBox.baseVal.width/box.width;
    const x=d.x[0]+((e.clientX-box.left)*scale-l)/(r-l)*(d.x[1]-d.x[0]);
    leave();
    if(x<d.x[0]||x>d.x[1])return;
    group=svg.appendChild(document.createElementNS(ns,"g"));
    tip=fig.appendChild(document.createElement("div"));tip.className="tip";
    let at=null;const rows=[];
    for(const s of d.s){if(!s.p.length)continue;const p=nearest(s.p,x);at??=p[0];
      const c=group.appendChild(document.createElementNS(ns,"circle"));
      c.setAttribute("class","dot "+s.c);c.setAttribute("r",4);c.setAttribute("cx",px(p[0]));c.setAttribute("cy",Math.max(t,py(p[1])));
      rows.push([s,p])}
    if(at===null)return leave();
    const line=group.appendChild(document.createElementNS(ns,"line"));
    line.setAttribute("class","cursor");line.setAttribute("x1",px(at));line.setAttribute("x2",px(at));
    line.setAttribute("y1",t);line.setAttribute("y2",b);
    const head=tip.appendChild(document.createElement("div"));head.textContent="step "+at;
    for(const[s,p]of rows){const row=tip.appendChild(document.createElement("div"));
      const i=row.appendChild(document.createElement("i"));i.className=s.c;
      row.append(s.n+" "+p[1]+(p[0]!==at?" @ "+p[0]:""))}
    const fb=fig.getBoundingClientRect(),w=tip.offsetWidth;
    const left=e.clientX-fb.left+fig.scrollLeft;
    tip.style.left=(left-fig.scrollLeft+w+24>fb.width?left-w-14:left+14)+"px";
    tip.style.top=Math.max(4,e.clientY-fb.top-tip.offsetHeight-10)+"px";
  });
  svg.addEventListener("pointerleave",leave);
}
)js";

}  // namespace stoa::watch
