// The name under which every call goes out: a web application firewall blocks calls without one, and an operator finds them by it in a log.

export function userAgentOf(version: string): string {
  return `webhook-reconciler/${version}`
}
