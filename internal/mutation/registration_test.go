//go:build mutation

package mutation

import "slices"

// registrationMutants are bugs of regions: their forms, re-registration, device memory and
// advice.
var registrationMutants = slices.Concat(
	bugsIn("internal/memory", []mutant{
		{name: "new-memory-under-the-old-key", in: "Table.reregister", test: "TestE14_M3_Model",
			old: "$t.keys.retire($r.key); $*rest; $r.key, $*left = key, $*right",
			new: "$t.keys.retire(key); $*rest; _, $*left = key, $*right"},
		{name: "rereg-keeps-the-address", in: "Table.reregister", test: "TestE14_M3_Model",
			old: "$r.key, $r.form, $r.buf, $r.iova, $r.invalidated = key, $form, $buf, $start, false",
			new: "$r.key, $r.form, $r.buf, $r.invalidated = key, $form, $buf, false"},
		{name: "rereg-of-rights-ignored", in: "Table.reregister", breaks: "E14",
			old: "$r.pd, $r.access, $r.durable = $pd, $access, $durable",
			new: "$r.pd = $pd"},
		{name: "region-keeps-its-domain", in: "Table.reregister", breaks: "E14",
			old: "$r.pd, $r.access, $r.durable = $pd, $access, $durable",
			new: "$r.access = $access"},
		{name: "address-0-is-none", in: "RegionConfig.start", test: "TestM3_AddressZero",
			old: "$c.HasIOVA || $rest",
			new: "$rest"},
		{name: "null-region-reads-what-was-written", in: "Region.unbuffered", test: "TestM3_NullRegion",
			old: "return $r.null.sink[:n], FaultNone",
			new: "return $r.null.zeros[:n], FaultNone"},
		{name: "null-region-gets-memory", in: "Table.reregister", test: "TestM3_NullRegion",
			old: "$r.form == FormNull || $rest",
			new: "$rest"},
		{name: "address-space-without-end", in: "Region.unbuffered", test: "TestM3_ImplicitRegion",
			old: "$start && addr < implicitEnd && n <= $left",
			new: "$start"},
		{name: "page-at-address-0-in-the-address-space", in: "Region.unbuffered", test: "TestM3_ImplicitRegion",
			old: "addr >= implicitStart",
			new: "addr > 0"},
		{name: "address-space-is-never-unmapped", in: "RegionConfig.foreign", test: "TestM3_ImplicitRegion",
			old: "$c.Foreign || $c.Form == FormImplicit",
			new: "$c.Foreign"},
	}),
	bugsIn("internal/hca", []mutant{
		{name: "device-memory-freed-under-a-region", in: "DM.Free", test: "verbs TestM3_DeviceMemoryRefused",
			old: "$d.regions != 0",
			new: "false"},
		{name: "region-covers-device-memory-for-ever", in: "PD.ReregMR", test: "verbs TestM3_DeviceMemoryRefused",
			old: "$p.hca.leaveDM(r)"},
		{name: "freed-device-memory-still-counts", in: "DM.Free", test: "verbs TestM3_DeviceMemoryRefused",
			old: "$d.hca.dmBytes -= $size"},
		{name: "region-behind-device-memory", in: "PD.RegDM", test: "verbs TestM3_DeviceMemoryRefused",
			old: "off > size || n > size-off",
			new: "off > size"},
		{name: "device-memory-anywhere", in: "AllocDM", test: "verbs TestM3_DeviceMemoryIsAligned",
			old: "-$at & (align - 1)",
			new: "$at & 0"},
		{name: "advice-on-a-foreign-region", in: "PD.View", test: "verbs TestM3_Rereg",
			old: "$p.hca.env.Mem.Local($p.ID, $e.LKey, $*rest)",
			new: "$p.hca.env.Mem.Local(1, $e.LKey, $*rest)"},
	}),
	bugsIn("internal/device", []mutant{
		{name: "advice-adds-pages-that-it-must-not", in: "PD.Advise", test: "verbs TestM3_Advise",
			old: "$err != nil || $advice == ib.AdvicePrefetchNoFault",
			new: "$err != nil"},
		{name: "prefetch-for-writing-of-a-read-only-region", in: "PD.Advise", test: "verbs TestM3_Advise",
			old: "need = ib.AccessLocalWrite"},
	}),
	bugsIn("verbs", []mutant{
		{name: "device-memory-copied-past-its-end", in: "DM.part", test: "TestM3_DeviceMemoryRefused",
			old: "off > size || uint64(n) > size-off",
			new: "off+uint64(n) > size"},
	}),
)
