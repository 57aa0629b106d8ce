// The private symbols of libibverbs, which rdma-core's providers and some of its programs
// import. A program that is linked with a provider starts only if all of them exist, in
// the version of its rdma-core. There is no other vendor's adapter here, so every function
// fails.
#define _GNU_SOURCE
#include "private.h"
#include "softhca.h"

// The constructor of a provider calls the function that carries its version in its name.
#define REGISTER(symbol, name, version, at) \
	EXPORT void name##_##version(const void *ops) { (void)ops; }
VERSIONS(REGISTER, , verbs_register_driver)

// Providers from before the private symbols had a version of their own.
LATER(void, ibv_register_driver, const char *name, const void *init) { (void)name, (void)init; }

EXPORT bool allow_disassociate;
PRIVATE(allow_disassociate, verbs_allow_disassociate_destroy)

EXPORT void verbs_log(void *context, uint32_t level, const char *format, ...) { (void)context, (void)level, (void)format; }
PRIVATE(verbs_log, __verbs_log)

EXPORT int no_code(void) { return unsupported(); }
EXPORT void *no_pointer(void) { return fail(EOPNOTSUPP); }

#define CODE(name) PRIVATE(no_code, name)
#define POINTER(name) PRIVATE(no_pointer, name)

POINTER(_verbs_init_and_alloc_context)
POINTER(verbs_open_device)
POINTER(ibv_dmabuf_heap_alloc)

CODE(__ioctl_final_num_attrs)
CODE(execute_ioctl)
CODE(ibv_cmd_advise_mr)
CODE(ibv_cmd_alloc_dm)
CODE(ibv_cmd_alloc_dmah)
CODE(ibv_cmd_alloc_mw)
CODE(ibv_cmd_alloc_pd)
CODE(ibv_cmd_attach_mcast)
CODE(ibv_cmd_close_xrcd)
CODE(ibv_cmd_create_ah)
CODE(ibv_cmd_create_comp_cntr)
CODE(ibv_cmd_create_counters)
CODE(ibv_cmd_create_cq)
CODE(ibv_cmd_create_cq_ex)
CODE(ibv_cmd_create_cq_ex2)
CODE(ibv_cmd_create_flow)
CODE(ibv_cmd_create_flow_action_esp)
CODE(ibv_cmd_create_qp)
CODE(ibv_cmd_create_qp_ex)
CODE(ibv_cmd_create_qp_ex2)
CODE(ibv_cmd_create_rwq_ind_table)
CODE(ibv_cmd_create_srq)
CODE(ibv_cmd_create_srq_ex)
CODE(ibv_cmd_create_wq)
CODE(ibv_cmd_dealloc_mw)
CODE(ibv_cmd_dealloc_pd)
CODE(ibv_cmd_dereg_mr)
CODE(ibv_cmd_destroy_ah)
CODE(ibv_cmd_destroy_comp_cntr)
CODE(ibv_cmd_destroy_counters)
CODE(ibv_cmd_destroy_cq)
CODE(ibv_cmd_destroy_flow)
CODE(ibv_cmd_destroy_flow_action)
CODE(ibv_cmd_destroy_qp)
CODE(ibv_cmd_destroy_rwq_ind_table)
CODE(ibv_cmd_destroy_srq)
CODE(ibv_cmd_destroy_wq)
CODE(ibv_cmd_detach_mcast)
CODE(ibv_cmd_export_dmabuf_fd)
CODE(ibv_cmd_free_dm)
CODE(ibv_cmd_free_dmah)
CODE(ibv_cmd_get_context)
CODE(ibv_cmd_inc_comp_cntr)
CODE(ibv_cmd_inc_err_comp_cntr)
CODE(ibv_cmd_modify_cq)
CODE(ibv_cmd_modify_flow_action_esp)
CODE(ibv_cmd_modify_qp)
CODE(ibv_cmd_modify_qp_ex)
CODE(ibv_cmd_modify_srq)
CODE(ibv_cmd_modify_wq)
CODE(ibv_cmd_open_qp)
CODE(ibv_cmd_open_xrcd)
CODE(ibv_cmd_poll_cq)
CODE(ibv_cmd_post_recv)
CODE(ibv_cmd_post_send)
CODE(ibv_cmd_post_srq_recv)
CODE(ibv_cmd_qp_attach_comp_cntr)
CODE(ibv_cmd_query_comp_cntr_caps)
CODE(ibv_cmd_query_context)
CODE(ibv_cmd_query_device_any)
CODE(ibv_cmd_query_mr)
CODE(ibv_cmd_query_port)
CODE(ibv_cmd_query_port_speed)
CODE(ibv_cmd_query_qp)
CODE(ibv_cmd_query_srq)
CODE(ibv_cmd_read_comp_cntr)
CODE(ibv_cmd_read_counters)
CODE(ibv_cmd_read_err_comp_cntr)
CODE(ibv_cmd_reg_dm_mr)
CODE(ibv_cmd_reg_dmabuf_mr)
CODE(ibv_cmd_reg_mr)
CODE(ibv_cmd_reg_mr_ex)
CODE(ibv_cmd_req_notify_cq)
CODE(ibv_cmd_rereg_mr)
CODE(ibv_cmd_resize_cq)
CODE(ibv_cmd_set_comp_cntr)
CODE(ibv_cmd_set_err_comp_cntr)
CODE(ibv_dmabuf_heap_cc_shared_init)
CODE(ibv_dmabuf_heap_destroy)
CODE(ibv_dmabuf_heap_free)
CODE(ibv_read_ibdev_sysfs_file)
CODE(verbs_init_cq)
CODE(verbs_set_ops)
CODE(verbs_uninit_context)
