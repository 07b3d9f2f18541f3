// The texts of the alert rules: what each says, its section of the runbook, and what it joins.
import { expect, test } from 'vitest'
import { readShippedRules } from '../support/promql/rules.ts'
import { read } from './texts.ts'

const rules = readShippedRules(read('config/prometheus/alerts.yaml'))
const alerts = rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, alert: rule.alert }]))
const book = read('docs/runbook.md')
/** Template of the runbook's address: the label of one recording rule. */
const runbookAddress = '{{ with query "webhook_reconciler:runbook_info" }}{{ . | first | label "url" }}{{ end }}'

test.each(alerts)('$alert says what it means, what to do, and where to read more', ({ alert, labels, annotations }) => {
  expect(alert).toMatch(/^WebhookReconciler[A-Z]/)
  expect(['critical', 'warning']).toContain(labels?.['severity'])
  const { summary = '', description = '', runbook_url: runbook, ...others } = annotations ?? {}
  expect(others).toEqual({})
  expect(summary).not.toMatch(/\.$|^$/)
  expect(description).toMatch(/\.$/)
  expect(description.length).toBeGreaterThan(60)
  expect(runbook).toBe(`${runbookAddress}#${alert.toLowerCase()}`)
  const [, section = ''] = book.split(`\n## ${alert}\n`)
  const [text = ''] = section.split(/\n#+ /)
  for (const part of ['**Meaning**', '**Diagnosis**', '**Mitigation**']) expect(text, alert).toContain(part)
})

test('has each alert once, and the runbook no others', () => {
  const names = alerts.map(({ alert }) => alert)
  expect(new Set(names).size).toBe(names.length)
  const sections = [...book.matchAll(/^## (WebhookReconciler\w+)$/gm)].map(([, name]) => name)
  expect(sections).toEqual(names)
})

test('joins targets by job and instance only', () => {
  for (const { expr } of rules) {
    // `on ()` compares no target with another: it says only whether there is any. Some instances of a job share a lease.
    for (const [, labels, other] of expr.matchAll(/\bon ?\(([^)]*)\)(?:[\s(]*(\w+))?/g)) {
      // A job that has vanished has no instance any more.
      if (labels !== 'job')
        expect(
          other === 'webhook_reconciler_leader' ? ['job, lease', 'job, instance'] : ['job, instance', ''],
        ).toContain(labels)
    }
    // What a target has besides (pod, namespace) is kept, so that the page says where. That none leads is about no target.
    expect(expr.replaceAll(/(sum by \(job(, lease)?\)|group by \(job\)) \(/g, '')).not.toMatch(/\bby ?\(/)
  }
})
