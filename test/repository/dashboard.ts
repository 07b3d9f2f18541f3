// The dashboard as its tests read it: its panels, and their queries as Grafana would send them.
import { read } from './texts.ts'

interface DataSource {
  type: string
  uid: string
}

export interface PanelTarget {
  refId: string
  expr: string
  legendFormat?: string
  datasource?: DataSource
}

export interface Panel {
  id: number
  type: string
  title?: string
  description?: string
  datasource?: DataSource
  fieldConfig?: { defaults: { unit?: string } }
  targets?: PanelTarget[]
  /** Those of a row that is collapsed. */
  panels?: Panel[]
}

export interface Dashboard {
  uid: string
  title: string
  templating: { list: { name: string; type: string }[] }
  annotations: { list: { name: string; expr: string }[] }
  panels: Panel[]
}

/** A copy of its own for each that asks. */
export function readDashboard(): Dashboard {
  return JSON.parse(read('config/grafana/dashboard.json')) as Dashboard
}

/** All panels but the rows, in the order of the file; those in collapsed rows too. */
export function panelsOf(panels: readonly Panel[]): Panel[] {
  return panels.flatMap((panel) => [...(panel.type === 'row' ? [] : [panel]), ...panelsOf(panel.panels ?? [])])
}

/** The query with all jobs and instances chosen, over `range` (such as `30s`). */
export function fillIn(expr: string, range: string): string {
  return expr.replaceAll('$__rate_interval', range).replaceAll(/\$\{?(?:job|instance)\b\}?/g, '.*')
}
