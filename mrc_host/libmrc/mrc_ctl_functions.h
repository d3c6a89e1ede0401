/* The functions of the OCP's MRC API for controllers: -1 with errno, but for the pointer and the number of events. */
#ifndef MRC_CTL_FUNCTIONS_H
#define MRC_CTL_FUNCTIONS_H

#pragma GCC visibility push(default)

int mrc_ctl_query_device(struct ibv_context *context, struct mrc_ctl_device_attr *attr);
int mrc_ctl_query_device_ex(struct ibv_context *context, struct mrc_context *mrc, struct mrc_ctl_device_attr *attr,
                            int *supported);
void mrc_ctl_query_version(uint32_t *current, uint32_t *oldest, uint32_t *vendor, uint32_t *oldest_vendor);

int mrc_ctl_query_port(struct mrc_context *mrc, uint8_t port, struct mrc_ctl_port_attr *attr, int attr_mask);
int mrc_ctl_modify_port(struct mrc_context *mrc, uint8_t port, struct mrc_ctl_port_attr *attr, int attr_mask);

int mrc_ctl_modify_ev_fmt_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr *attr,
                                  int attr_mask);
int mrc_ctl_query_ev_fmt_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_fmt_profile_attr *attr,
                                 int attr_mask);
int mrc_ctl_modify_ev_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr,
                              int attr_mask);
int mrc_ctl_query_ev_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_ev_profile_attr *attr, int attr_mask);
int mrc_ctl_modify_cc_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_cc_profile_attr *attr,
                              int attr_mask);
int mrc_ctl_query_cc_profile(struct mrc_context *mrc, uint64_t id, struct mrc_ctl_cc_profile_attr *attr, int attr_mask);

struct mrc_cq *mrc_ctl_create_ev_event_cq(struct mrc_context *mrc, int cqe, void *cq_context,
                                          struct mrc_comp_channel *channel, int vector);
int mrc_ctl_poll_ev_event(struct mrc_cq *cq, int count, struct mrc_ctl_ev_event *events); /* or minus an errno */

int mrc_ctl_ep_batch_send_wait(struct mrc_context *mrc, uint8_t traffic_class, enum mrc_ctl_ep_op_type op,
                               struct mrc_ctl_ep_req *requests, int request_count, uint32_t timeout_ns,
                               struct mrc_ctl_ep_rsp *responses, int *response_count);

#pragma GCC visibility pop

#endif
