/* The functions of the OCP's MRC API for applications. Errors: "-1" sets errno, others return the errno and set it. */
#ifndef MRC_FUNCTIONS_H
#define MRC_FUNCTIONS_H

#pragma GCC visibility push(default)

int mrc_query_device(struct ibv_context *context, struct mrc_device_attr *attr, int *supported); /* -1 */
int mrc_query_device_ex(struct ibv_context *context, struct mrc_context *mrc, struct mrc_device_attr *attr,
                        int *supported); /* -1 */
void mrc_query_version(uint32_t *current, uint32_t *oldest, uint32_t *vendor, uint32_t *oldest_vendor);
struct mrc_context *mrc_create_context(struct ibv_context *context, struct mrc_context_attr *attr);
int mrc_destroy_context(struct mrc_context *mrc); /* -1 */

int mrc_create_comp_channel(struct mrc_context *mrc, struct mrc_comp_channel **channel);
int mrc_get_comp_channel_fd(struct mrc_comp_channel *channel, int *fd); /* -1 */
int mrc_destroy_comp_channel(struct mrc_comp_channel *channel);
struct mrc_cq *mrc_create_cq(struct mrc_context *mrc, int cqe, void *cq_context, struct mrc_comp_channel *channel,
                             int vector);
int mrc_poll_cq(struct mrc_cq *cq, int count, struct ibv_wc *entries);
int mrc_destroy_cq(struct mrc_cq *cq);
int mrc_req_notify_cq(struct mrc_cq *cq, int solicited_only);
int mrc_get_cq_event(struct mrc_comp_channel *channel, struct mrc_cq **cq, void **cq_context); /* -1 */
void mrc_ack_cq_events(struct mrc_cq *cq, unsigned int count);

struct mrc_qp_hint *mrc_create_qp_hint(struct mrc_context *mrc, struct mrc_qp_hint_init_attr *init);
int mrc_destroy_qp_hint(struct mrc_qp_hint *hint);                                              /* -1 */
int mrc_query_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int attr_mask);  /* -1 */
int mrc_modify_qp_hint(struct mrc_qp_hint *hint, struct mrc_qp_hint_attr *attr, int attr_mask); /* -1 */

struct mrc_qp *mrc_create_qp(struct mrc_context *mrc, struct mrc_qp_init_attr *init);
int mrc_destroy_qp(struct mrc_qp *qp);
int mrc_query_qp(struct mrc_qp *qp, struct ibv_qp_attr *verbs_attr, int verbs_mask, struct mrc_qp_attr *attr,
                 int attr_mask, struct mrc_qp_init_attr *init);
int mrc_modify_qp(struct mrc_qp *qp, struct ibv_qp_attr *verbs_attr, int verbs_mask, struct mrc_qp_attr *attr,
                  int attr_mask);
int mrc_get_qpn(struct mrc_qp *qp, uint32_t *qpn);                                           /* -1 */
int mrc_post_recv(struct mrc_qp *qp, struct ibv_recv_wr *request, struct ibv_recv_wr **bad); /* -1 */
int mrc_post_send(struct mrc_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad);

int mrc_get_async_event(struct mrc_context *mrc, struct mrc_async_event *event); /* -1 */
void mrc_ack_async_event(struct mrc_async_event *event);

#pragma GCC visibility pop

#endif
