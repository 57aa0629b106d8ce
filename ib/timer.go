package ib

import "time"

// RNRInfiniteRetry is the rnr_retry value that means unlimited retries.
const RNRInfiniteRetry = 7

// rnrTimer10us holds the RNR timer codes in units of 10 microseconds.
var rnrTimer10us = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// RNRTimer returns the wait that the low five bits of an RNR timer code ask
// for, between 10 µs (code 1) and 655.36 ms (code 0).
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTimer10us[code&31]) * 10 * time.Microsecond
}

// AckTimeout returns the local ACK timeout of a code of 1 to 31:
// 4.096 µs · 2^code. Code 0 means never and returns 0.
func AckTimeout(code uint8) time.Duration {
	if code&31 == 0 {
		return 0
	}
	return 4096 << (code & 31)
}

// CreditsInvalid is the AETH credit code that carries no credit count: the
// sender is not limited.
const CreditsInvalid = 31

var credits = [31]uint32{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// Credits returns the number of receive work requests of a credit code, and
// false for CreditsInvalid.
func Credits(code uint8) (n uint32, ok bool) {
	if code >= CreditsInvalid {
		return 0, false
	}
	return credits[code], true
}

// CreditCode returns the largest credit code that promises at most n receive
// work requests.
func CreditCode(n uint32) uint8 {
	code := uint8(len(credits) - 1)
	for credits[code] > n {
		code--
	}
	return code
}
