package text

// Yes returns "yes" or "no".
func Yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
