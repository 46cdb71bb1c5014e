/* gcoll/version.h - the one place that states the version; the build reads it from here. */
#ifndef GCOLL_VERSION_H
#define GCOLL_VERSION_H

#include "gcoll/export.h"

#define GCOLL_VERSION_MAJOR 0
#define GCOLL_VERSION_MINOR 1
#define GCOLL_VERSION_PATCH 0

GCOLL_BEGIN_DECLS

/* Returns the version of the library that is loaded, as "0.1.0". */
GCOLL_API const char *gcoll_version(void);

GCOLL_END_DECLS

#endif
