// The User-Agent of every call: web application firewalls block calls without one, and operators find them by it in logs.

export function userAgentOf(version: string): string {
  return `webhook-reconciler/${version}`
}
