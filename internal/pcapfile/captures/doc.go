// Package captures gives the packets of capture files to tests. Only tests import it.
package captures
