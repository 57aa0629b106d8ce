//go:build mutation

package mutation

import "slices"

// cSecureMutants are bugs in C that give the user who starts a set-user-ID program its
// rights. Only root can create such programs, so these mutants run only for root.
var cSecureMutants = slices.Concat(
	cBugsIn("capi/libibverbs/loader.c", []cMutant{
		{name: "settings-of-privileged-programs", in: "setting",
			old: "secure_getenv(name)", new: "getenv(name)",
			sees: "a set-user-ID program runs the engine that its user names"},
	}),
	cBugsIn("capi/libibverbs/context.c", []cMutant{
		{name: "sysfs-path-of-privileged-programs", in: "ibv_get_sysfs_path",
			old: "secure_getenv(", new: "getenv(",
			sees: "a set-user-ID program looks for /sys where its user says"},
	}),
	cBugsIn("capi/preload/path.c", []cMutant{
		{name: "image-of-privileged-programs", in: "root_of_environment",
			old: "secure_getenv(", new: "getenv(",
			sees: "a set-user-ID program reads files of its user below /sys"},
	}),
)
