// Which calls are pages of a sweep: the daemon's questions and checks list in other ways.
import { listParameter } from '../../src/platform/wire.ts'
import type { Call } from './network.ts'

/** Sweeps list by status; a question whether the platform answers asks for one row. */
export function isSweepPage({ operation, url }: Call): boolean {
  const { searchParams } = url
  return (
    operation === 'list' && searchParams.has(listParameter.status) && searchParams.get(listParameter.pageSize) !== '1'
  )
}
