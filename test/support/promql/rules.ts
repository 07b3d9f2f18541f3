// The shipped alert rules over scraped samples: which alerts fire.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { compile } from './promql.ts'
import { createSeriesStore, keyOf, nameLabel, type Labels, type Sample } from './series.ts'

export interface ShippedRule {
  alert?: string
  record?: string
  expr: string
  for?: string
  keep_firing_for?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
}

/** An alert, its severity among the labels. */
export type Alert = Labels

export interface Rules {
  /** What Prometheus scraped at a moment, epoch ms: value by series, `name{label="value"}`. The alerts that fire then. */
  scrape(at: number, samples: Iterable<readonly [series: string, value: number]>): readonly Alert[]
}

export const shippedRulesFile = join(import.meta.dirname, '../../../config/prometheus/alerts.yaml')

export function readShippedRules(text = readFileSync(shippedRulesFile, 'utf8')): readonly ShippedRule[] {
  const { groups } = parse(text) as { groups: { name: string; rules: ShippedRule[] }[] }
  return groups.flatMap(({ rules }) => rules)
}

const msOf = (duration = '0m'): number =>
  Number.parseInt(duration) * ({ s: 1000, m: 60_000, h: 3_600_000 }[duration.slice(-1)] ?? NaN)

/** A series as Prometheus has it from a target with these labels. */
export function ofTarget(series: string, target: string): string {
  return series.endsWith('}') ? series.replace(/\}$/, `,${target}}`) : `${series}{${target}}`
}

export function labelsOf(series: string): Labels {
  const [, name = '', pairs = ''] = /^([^{]+)(?:\{(.*)\})?$/.exec(series) ?? []
  const labels = [...pairs.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', value = '']) => [label, value] as const)
  return { [nameLabel]: name, ...Object.fromEntries(labels) }
}

interface Active {
  labels: Labels
  since: number
  isFiring: boolean
  /** Since when its expression is not true any more. */
  goneSince: number | undefined
}

/** Of one alert: pending for a time, and then firing, also for a time after its end. */
function createAlert(rule: ShippedRule & { alert: string }): (found: readonly Sample[], now: number) => Alert[] {
  const [forMs, keepMs] = [msOf(rule.for), msOf(rule.keep_firing_for)]
  const active = new Map<string, Active>()

  return (found, now) => {
    const seen = new Set(
      found.map(({ labels: { [nameLabel]: _, ...labels } }) => {
        const key = keyOf(labels)
        const state = { labels, since: now, isFiring: false, goneSince: undefined }
        active.getOrInsertComputed(key, () => state).goneSince = undefined
        return key
      }),
    )
    for (const [key, state] of active) {
      if (!seen.has(key)) state.goneSince ??= now
      const isKept = state.goneSince === undefined || (state.isFiring && now - state.goneSince < keepMs)
      if (!isKept) active.delete(key)
      else if (now - state.since >= forMs) state.isFiring = true
    }
    return [...active.values()].map(({ isFiring, labels }) => ({
      ...labels,
      ...rule.labels,
      [nameLabel]: 'ALERTS',
      alertname: rule.alert,
      alertstate: isFiring ? 'firing' : 'pending',
    }))
  }
}

/** Recording rules that no alert reads are left out. */
export function createRules(rules: readonly ShippedRule[] = readShippedRules()): Rules {
  const store = createSeriesStore()
  const expressions = rules.flatMap(({ alert, expr }) => (alert === undefined ? [] : [expr]))
  const isRead = ({ alert, record = '' }: ShippedRule): boolean =>
    alert !== undefined || expressions.some((expr) => expr.includes(record))
  const compiled = rules.filter(isRead).map((rule) => ({
    ...compile(rule.expr, store),
    name: rule.alert ?? rule.record ?? '',
    record: rule.record,
    toAlerts: createAlert({ alert: '', ...rule }),
  }))
  const read = new Set(compiled.flatMap(({ names }) => [...names]))
  const parsed = new Map<string, Labels>()

  return {
    scrape(at, samples) {
      const meant = [...samples].flatMap(([series, value]) => {
        const labels = parsed.getOrInsertComputed(series, labelsOf)
        return read.has(labels[nameLabel] ?? '') ? [{ labels, value }] : []
      })
      store.add('', at, meant)
      return compiled.flatMap((rule) => {
        const found = rule.at(at)
        const alerts = rule.record === undefined ? rule.toAlerts(found, at) : []
        const own = found.map(({ labels, value }) => ({ labels: { ...labels, [nameLabel]: rule.name }, value }))
        store.add(rule.name, at, rule.record === undefined ? alerts.map((labels) => ({ labels, value: 1 })) : own)
        return alerts.filter(({ alertstate }) => alertstate === 'firing')
      })
    },
  }
}
