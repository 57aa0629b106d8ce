// An engine in C that records what libibverbs passes to it, and returns what the test has
// written here. The scenarios find the variable recorder in the engine's file.
#ifndef RECORDER_H
#define RECORDER_H

#include "../../../internal/ring/cpeer/ring.h"
#include "../../engine/engine.h"

#include <stdatomic.h>

enum { RECORDED_TEXT = 256 };

// recorded has the strings of a configuration: those of the library are gone when the call returns.
struct recorded {
	char addr[RECORDED_TEXT], capture[RECORDED_TEXT], log_level[RECORDED_TEXT], log_format[RECORDED_TEXT];
	char config_dir[RECORDED_TEXT], guid[RECORDED_TEXT], faults[RECORDED_TEXT], faults_seed[RECORDED_TEXT], sysfs[RECORDED_TEXT], wire[RECORDED_TEXT];
	char nasty[RECORDED_TEXT];
};

struct recorder {
	// The arguments of the newest call of each kind.
	struct softhca_config config;
	struct recorded text;
	struct softhca_mr mr;
	uint32_t what; // of rereg_mr
	handle_t pd;   // of rereg_mr
	struct softhca_dm dm;
	uint32_t advice, advised; // advised: the number of elements
	int wait;
	struct softhca_sge first; // of the elements
	struct softhca_cq cq;
	struct softhca_srq srq;
	uint32_t limit, resized;
	uint32_t count, period, awaited; // of moderate_cq and await_cq
	struct softhca_qp qp, target;
	handle_t in; // the XRC domain of target_qp, or the one that was closed
	char file[RECORDED_TEXT]; // of open_xrcd
	int file_descriptor;     // of open_xrcd
	struct softhca_qp_attr modified;
	uint32_t mask, rate, burst;
	int detach, solicited;
	struct softhca_av av;

	// The numbers of calls, and the sums of what the doorbells counted.
	unsigned domains, domains_closed; // of XRC
	unsigned opens, closes, arms, checks, doorbells, overdues, progresses, sleeps, slept; // slept: sleeps that have returned
	uint64_t requests, bytes;
	unsigned refusals;        // calls of refused, and what the newest one said
	char refused[RECORDED_TEXT];
	_Atomic int in_progress; // a thread is in progress
	int bare;                // the newest call of progress did not block SIGUSR1

	// The results of the calls.
	int code;              // all calls fail with it, unless it is 0
	unsigned checked_code; // the number of the call of check that fails with ENOMEM, from 1; 0: none
	int watched, waits;
	struct softhca_adapter adapter;
	struct softhca_qp_attr queried;
	uint32_t limit_is; // the limit that query_srq returns

	// What some calls do.
	_Atomic int hold_progress, hold_flush; // they do not return
	_Atomic long linger;                   // ns that a call of progress or sleep takes at least
	int flushed;                           // descriptor that gets a byte for each flush; 0: none
	unsigned early;   // the number of calls of sleep that return without an event
	int raise;        // signal that the next call of sleep raises; 0: none
	int sleep_on;     // sleep waits until its descriptor for ends is readable
	int ended;        // the descriptor for ends was readable in the newest call of sleep
	struct softhca_sleep sleep; // its argument
};

#endif
