//go:build linux

package main

import "strings"

// overDAPL returns the meetings of uDAPL's programs for two providers: cma connects by rdma_cm,
// scm by a TCP socket. A third provider, ucm, finds its peers by their LIDs, which RoCE
// adapters do not have.
func overDAPL() (ms []meeting) {
	for _, provider := range []string{"cma", "scm"} {
		for _, m := range []meeting{
			{server: "dtest -P PROVIDER -b 65536", client: "dtest -P PROVIDER -b 65536 -h SERVER", says: "DAPL Test Complete. PASSED"},
			{server: "dtestx -P PROVIDER", client: "dtestx -P PROVIDER -h SERVER", says: "immed/atomic test PASSED"},
			{
				server: "dapltest -T S -D PROVIDER", stays: true,
				client: "dapltest -T T -D PROVIDER -s SERVER -i 100 -t 2 -w 2 -V -R BE client SR 1024 4 server SR 1024 4 client RW 4096 1 server RR 8192 1",
			},
		} {
			m.section = "dapl2-utils"
			if provider == "scm" && strings.HasPrefix(m.server, "dtestx") {
				m.skip = "scm speaks TCP as before its version 8 now and then, to a peer that does not"
			}
			m.server = "env DAT_OVERRIDE=DIR/server.conf " + strings.ReplaceAll(m.server, "PROVIDER", provider)
			m.client = "env DAT_OVERRIDE=DIR/client.conf " + strings.ReplaceAll(m.client, "PROVIDER", provider)
			m.files = [][2]string{{"server.conf", daplConf("SERVER")}, {"client.conf", daplConf("CLIENT")}}
			ms = append(ms, m)
		}
	}
	return ms
}

// daplConf returns a list of uDAPL's adapters, for a process on an address.
func daplConf(addr string) string {
	return `cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "` + addr + ` 0" ""
scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "softhca0 1" ""
`
}
