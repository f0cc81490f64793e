/* plimsoll_plan.h - part of plimsoll.h. */
#ifndef PLIMSOLL_PLAN_H
#define PLIMSOLL_PLAN_H

#ifndef PLIMSOLL_H
#include "plimsoll.h"
#endif

#endif
