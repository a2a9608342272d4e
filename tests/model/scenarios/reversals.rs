//! Events that ask to reverse the entry of another event.

use super::books;
use crate::shared::{ACME, rule};
use crate::table::check;

const REFUNDING: &str = r#"
[[rules]]
name = "refund"
on = "ecommerce.order.refunded"
when = "exists(payload.orderEventId)"
reverses = "payload.orderEventId"
date = "payload.day"
"#;

pub(super) const CANCELLATIONS: &str = "
shape cancel  ecommerce.order.cancelled  orderId orderEventId
shape refund  ecommerce.order.refunded   day orderEventId

cancel ord-1 evt-7                          | on 2026-02-25 | says Cancellation of ord-1 | by order-cancelled | reverses evt-7
cancel ord-1 #7                             | reverses 7
cancel ord-1 evt-7 @2026-01-10T00:00:00Z    | on 2026-01-10 | reverses evt-7
cancel ord-1 _                              | rule_failed payload.orderEventId
cancel ord-1 null                           | rule_failed payload.orderEventId
cancel ord-1 {}                             | rule_failed payload.orderEventId
cancel _     evt-7                          | rule_failed payload.orderId
refund 2026-03-01 evt-8                     | on 2026-03-01 | says - | by refund | reverses evt-8
refund someday    evt-8                     | rule_failed payload.day
refund 2026-03-01 _                         | rule_not_found
refund 2026-03-01 null                      | rule_not_found
";

#[test]
fn a_cancellation_asks_to_reverse_the_entry_of_another_event() {
    check(&books("", &(rule(ACME, "order-cancelled") + REFUNDING)), CANCELLATIONS);
}
