// The pages of KIPs, for links only: nothing of them is loaded.
const WIKI = "https://cwiki.apache.org/confluence/";
const LIST = `${WIKI}display/KAFKA/Kafka+Improvement+Proposals`;
const TITLES = {
  "KIP-98": "KIP-98 - Exactly Once Delivery and Transactional Messaging",
  "KIP-101": "KIP-101 - Alter Replication Protocol to use Leader Epoch rather than High Watermark for Truncation",
  "KIP-447": "KIP-447: Producer scalability for exactly once semantics",
  "KIP-455": "KIP-455: Create an Administrative API for Replica Reassignment",
  "KIP-460": "KIP-460: Admin Leader Election RPC",
  "KIP-497": "KIP-497: Add inter-broker API to alter ISR",
  "KIP-584": "KIP-584: Versioning scheme for features",
  "KIP-631": "KIP-631: The Quorum-based Kafka Controller",
  "KIP-664": "KIP-664: Provide tooling to detect and abort hanging transactions",
  "KIP-714": "KIP-714: Client metrics and observability",
  "KIP-730": "KIP-730: Producer ID generation in KRaft mode",
  "KIP-848": "KIP-848: The Next Generation of the Consumer Rebalance Protocol",
  "KIP-868": "KIP-868 Metadata Transactions",
  "KIP-890": "KIP-890: Transactions Server-Side Defense",
  "KIP-932": "KIP-932: Queues for Kafka",
  "KIP-939": "KIP-939: Support Participation in 2PC",
  "KIP-994": "KIP-994: Minor Enhancements to ListTransactions and DescribeTransactions APIs",
  "KIP-1071": "KIP-1071: Streams Rebalance Protocol",
  "KIP-1152": "KIP-1152: Add transactional ID pattern filter to ListTransactions API",
  "KIP-1251": "KIP-1251: Assignment epochs for consumer groups",
  "KIP-1228": "KIP-1228: Add Transaction Version to WriteTxnMarkersRequest",
};
/** A title with a slash has no address of its own. */
const PAGES = { "KIP-360": `${WIKI}pages/viewpage.action?pageId=89068820` };

/** The address of a KIP such as "KIP-890"; the list of all KIPs for one that is not known here. */
export function kipPage(kip) {
  const title = TITLES[kip];
  if (title === undefined) return PAGES[kip] ?? LIST;
  return `${WIKI}display/KAFKA/${encodeURIComponent(title).replaceAll("%20", "+")}`;
}

/** Its title, or its number alone. */
export const kipTitle = (kip) => TITLES[kip] ?? kip;
