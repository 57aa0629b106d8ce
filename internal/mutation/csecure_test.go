//go:build mutation

package mutation

// cSecureMutants are bugs in C that give the user who starts a set-user-ID program its
// rights. Only root can create such programs, so these mutants run only for root.
var cSecureMutants = []cMutant{
	{
		name: "settings-of-privileged-programs", in: "capi/libibverbs/loader.c:setting",
		old: "secure_getenv(name)", new: "getenv(name)",
		sees: "a set-user-ID program runs the engine that its user names",
	},
	{
		name: "sysfs-path-of-privileged-programs", in: "capi/libibverbs/context.c:ibv_get_sysfs_path",
		old: "secure_getenv(", new: "getenv(",
		sees: "a set-user-ID program looks for /sys where its user says",
	},
	{
		name: "image-of-privileged-programs", in: "capi/preload/path.c:root_of_environment",
		old: "secure_getenv(", new: "getenv(",
		sees: "a set-user-ID program reads files of its user below /sys",
	},
}
