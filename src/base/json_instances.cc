#define STOA_JSON_DEFINED_HERE
#include "base/json_instances.h"

#ifdef STOA_JSON_INSTANCES
STOA_JSON_INSTANCES()
#endif
