//go:build linux && cgo

#include "engine.h"
#include "_cgo_export.h"

// The compiler compares Go's exported functions with the declarations that the library uses.
#pragma GCC diagnostic error "-Wincompatible-pointer-types"

const struct softhca_calls softhca_calls = {
	.abi = SOFTHCA_ENGINE_ABI,
	.open = softhca_open, .close = softhca_close, .flush = softhca_flush, .describe = softhca_describe,
	.alloc_pd = softhca_alloc_pd, .dealloc_pd = softhca_dealloc_pd,
	.reg_mr = softhca_reg_mr, .rereg_mr = softhca_rereg_mr, .dereg_mr = softhca_dereg_mr,
	.alloc_mw = softhca_alloc_mw, .dealloc_mw = softhca_dealloc_mw,
	.advise_mr = softhca_advise_mr, .alloc_dm = softhca_alloc_dm, .free_dm = softhca_free_dm,
	.size_cq = softhca_size_cq, .size_srq = softhca_size_srq, .size_qp = softhca_size_qp,
	.create_cq = softhca_create_cq, .resize_cq = softhca_resize_cq, .arm_cq = softhca_arm_cq,
	.moderate_cq = softhca_moderate_cq, .await_cq = softhca_await_cq,
	.destroy_cq = softhca_destroy_cq,
	.open_xrcd = softhca_open_xrcd, .close_xrcd = softhca_close_xrcd,
	.create_srq = softhca_create_srq, .limit_srq = softhca_limit_srq, .resize_srq = softhca_resize_srq, .query_srq = softhca_query_srq,
	.destroy_srq = softhca_destroy_srq,
	.create_qp = softhca_create_qp, .target_qp = softhca_target_qp, .modify_qp = softhca_modify_qp, .query_qp = softhca_query_qp,
	.limit_qp = softhca_limit_qp, .destroy_qp = softhca_destroy_qp,
	.create_ah = softhca_create_ah, .destroy_ah = softhca_destroy_ah,
	.attach = softhca_attach, .detach = softhca_detach,
	.check = softhca_check, .check_srq = softhca_check_srq, .refused = softhca_refused, .refused_srq = softhca_refused_srq,
	.doorbell = softhca_doorbell, .progress = softhca_progress, .overdue = softhca_overdue,
	.sleep = softhca_sleep,
	.open_cm = softhca_open_cm, .open_cm_file = softhca_open_cm_file, .write_cm = softhca_write_cm, .disconnect_cm = softhca_disconnect_cm,
	.shut_cm = softhca_shut_cm,
};
