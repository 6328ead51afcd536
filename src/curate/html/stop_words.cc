// Written by scripts/make_curate_tables.py from jusText 3.0.2 (BSD licence of two clauses): do not edit.
#include "curate/html/stop_words.h"

namespace stoa::curate {

// clang-format off
std::string_view english_stop_words() {
  return
"the\n""of\n""and\n""in\n""to\n""a\n""was\n""is\n""The\n""for\n""as\n""on\n""with\n""by\n""that\n""from\n"
"at\n""his\n""an\n""he\n""In\n""are\n""were\n""which\n""be\n""has\n""He\n""it\n""or\n""also\n""had\n""first\n"
"It\n""their\n""not\n""but\n""have\n""who\n""its\n""one\n""this\n""been\n""her\n""two\n""they\n""other\n""into\n"
"after\n""all\n""when\n""more\n""This\n""only\n""would\n""A\n""she\n""New\n""most\n""can\n""over\n""during\n"
"where\n""new\n""used\n""such\n""up\n""between\n""many\n""made\n""some\n""than\n""out\n""United\n""known\n"
"about\n""time\n""then\n""became\n""under\n""\042The\n""being\n""part\n""there\n""him\n""years\n""three\n"
"through\n""On\n""including\n""later\n""will\n""American\n""both\n""After\n""until\n""before\n""She\n""well\n"
"no\n""against\n""while\n""called\n""second\n""As\n""several\n""University\n""number\n""name\n""these\n""played\n"
"early\n""may\n""They\n""World\n""His\n""located\n""National\n""same\n""them\n""released\n""There\n""de\n""area\n"
"use\n""work\n""any\n""school\n""since\n""team\n""age\n""so\n""John\n""won\n""people\n""began\n""each\n""year\n"
"population\n""now\n""family\n""film\n""found\n""city\n""British\n""four\n""album\n""could\n""very\n""However\054\n"
"South\n""named\n""At\n""around\n""took\n""former\n""because\n""series\n""For\n""States\n""did\n""within\n"
"state\n""end\n""based\n""May\n""I\n""local\n""held\n""September\n""still\n""often\n""those\n""member\n""small\n"
"town\n""along\n""back\n""School\n""large\n""January\n""June\n""group\n""served\n""March\n""high\n""own\n"
"During\n""North\n""July\n""October\n""if\n""like\n""following\n""built\n""August\n""April\n""music\n""born\n"
"village\n""game\n""due\n""last\n""place\n""home\n""State\n""left\n""major\n""set\n""include\n""U\056S\056\n"
"much\n""December\n""November\n""received\n""When\n""York\n""main\n""War\n""public\n""band\n""\050born\n""season\n"
"published\n""even\n""different\n""original\n""members\n""station\n""single\n""government\n""another\n""near\n"
"what\n""died\n""moved\n""become\n""just\n""February\n""company\n""included\n""song\n""came\n""led\n""late\n"
"form\n""national\n""make\n""went\n""These\n""off\n""show\n""French\n""five\n""system\n""few\n""various\n""given\n"
"best\n""English\n""City\n""long\n""third\n""among\n""every\n""West\n""German\n""using\n""do\n""said\n""started\n"
"currently\n""having\n""down\n""next\n""order\n""One\n""final\n""take\n""species\n""established\n""created\n"
"life\n""play\n""line\n""building\n""History\056\n""political\n""without\n""support\n""written\n""district\n""per\n"
"produced\n""High\n""popular\n""League\n""service\n""football\n""considered\n""St\056\n""way\n""returned\n"
"International\n""book\n""again\n""although\n""important\n""living\n""role\n""River\n""students\n""married\n""son\n"
"top\n""worked\n""San\n""continued\n""however\054\n""founded\n""joined\n""appeared\n""total\n""power\n""By\n"
"record\n""College\n""side\n""William\n""title\n""death\n""County\054\n""years\056\n""career\n""never\n""From\n"
"north\n""club\n""County\n""military\n""version\n""European\n""According\n""old\n""While\n""six\n""day\n""average\n"
"television\n""similar\n""world\n""general\n""million\n""With\n""Some\n""water\n""formed\n""international\n"
"usually\n""current\n""though\n""south\n""General\n""time\054\n""community\n""East\n""House\n""land\n""Although\n"
"George\n""making\n""player\n""playing\n""President\n""development\n""James\n""developed\n""common\n""should\n"
"great\n""century\n""does\n""further\n""run\n""working\n""largest\n""recorded\n""All\n""lost\n""must\n""elected\n"
"history\n""seen\n""live\n""opened\n""short\n""taken\n""once\n""professional\n""production\n""point\n""head\n"
"children\n""throughout\n""games\n""period\n""himself\n""originally\n""term\n""control\n""available\n""less\n"
"King\n""Its\n""modern\n""position\n""eventually\n""across\n""Royal\n""works\n""site\n""young\n""wrote\n""income\n"
"house\n""David\n""Other\n""Since\n""how\n""able\n""full\n""war\n""Australian\n""Air\n""London\n""Army\n"
"includes\n""law\n""designed\n""sold\n""featured\n""appointed\n""business\n""An\n""get\n""either\n""Japanese\n"
"program\n""US\n""Canadian\n""father\n""lead\n""approximately\n""performed\n""leading\n""radio\n""upon\n""remained\n"
"famous\n""Indian\n""we\n""Robert\n""First\n""help\n""west\n""gave\n""announced\n""men\n""result\n""times\n"
"field\n""you\n""right\n""east\n""almost\n""country\n""story\n""Church\n""followed\n""good\n""days\n""signed\n"
"features\n""together\n""described\n""research\n""sent\n""open\n""special\n""close\n""see\n""To\n""character\n"
"social\n""miles\n""rather\n""life\056\n""Council\n""Western\n""\050the\n""party\n""official\n""years\054\n"
"church\n";
}
// clang-format on

}  // namespace stoa::curate
