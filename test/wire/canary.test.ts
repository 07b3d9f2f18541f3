// Plants secrets, names, account numbers and receiver texts everywhere, lets everything go wrong, and searches all that the daemon writes.
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/runtime/clock.ts'
import { createLog, type Log } from '../../src/observe/log/log.ts'
import type { Transport } from '../../src/platform/http/http.ts'
import { startPlatform } from '../support/platform.ts'
import { endsOf, findCanaries, type Canaries } from '../support/canaries.ts'
import { startDaemon } from '../support/daemon.ts'
import {
  collectSecrets,
  encryptedKey,
  iban,
  keyEnv,
  planted,
  plantRecords,
  strayJwt,
  troubles,
} from '../support/planted.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const schedule = {
  RECONCILER_PLATFORM_REQUEST_TIMEOUT: '300ms',
  RECONCILER_RETRY_BACKOFF_INITIAL: '1s',
  RECONCILER_RETRY_BACKOFF_MAX: '2s',
  RECONCILER_RETRY_MAX_ATTEMPTS: '1000',
}

interface BadDay {
  /** Everything that was written, and what must not be in it. */
  written: string
  canaries: Canaries
  lines: number
}

/** A daemon's bad day: every trouble at the token endpoint, then at the list, then at the retries, then a receiver that talks. */
async function badDay(logLevel: string, between?: (transport: Transport, log: Log) => Transport): Promise<BadDay> {
  const { pem, encrypted } = await encryptedKey()
  const secrets = collectSecrets(pem, encrypted)
  const clock = createVirtualClock()
  const written: string[] = []
  await using sandbox = await startPlatform({ inProcess: true, clock })
  plantRecords(sandbox, clock.now())
  sandbox.faults.set(secrets.watch)
  const env = {
    ...schedule,
    ...keyEnv(encrypted),
    RECONCILER_LOG_LEVEL: logLevel,
  }
  await using daemon = await startDaemon(sandbox, {
    clock,
    env: { ...env, RECONCILER_AUTH_PRIVATE_KEY_FILE: undefined },
    write: (line) => written.push(line),
    ...(between && { between }),
  })
  sandbox.receiver.fail({
    status: 500,
    body: `${planted['what the receiver answers later']} ${planted.name}`,
    headers: { 'x-canary': planted['receiver header'] },
  })

  /** Ticks, in a time that goes on, until it is so. */
  async function until(stepMs: number, isSo: () => boolean): Promise<void> {
    for (let turn = 0; !isSo(); turn += 1) {
      if (turn === 200) throw new Error(`not so after ${turn} ticks`)
      daemon.tick()
      await clock.advance(stepMs)
    }
  }
  const hits = (): number => Object.values(sandbox.faults.hits()).reduce((sum, count) => sum + count, 0)

  for (const operation of ['token', 'list', 'retry'] as const) {
    for (const fault of troubles) {
      sandbox.faults.set(secrets.watch, { operation, fault })
      const before = hits()
      await until(60_000, () => {
        if (operation === 'token') sandbox.revokeTokens()
        return hits() > before
      })
      for (const path of ['/metrics', '/livez', '/readyz', '/status', '/']) written.push((await daemon.get(path)).body)
    }
  }
  sandbox.faults.set(secrets.watch)
  await until(20_000, () => sandbox.stats.deliveries.failed > 12)
  sandbox.receiver.heal()
  await until(20_000, () => sandbox.counts().successful > 12)
  written.push((await daemon.get('/metrics')).body)
  await daemon.stop()
  return { written: written.join('\n'), canaries: secrets.canaries(), lines: written.length }
}

describe('a bad day of the daemon', () => {
  test.each(['trace', 'debug'])('at %s: nothing that was planted is written', async (level) => {
    const { written, canaries } = await badDay(level)

    expect(findCanaries(written, canaries)).toEqual([])
    // It has said what happened, so there was something to search.
    expect(written).toContain('token_rejected')
    expect(written).toContain('sweep_failed')
    expect(written).toContain('retry_answered')
    expect(written).toContain('record_unreadable')
    // Each outcome has its line, and so has the circuit.
    expect(written).toMatch(/retry_outcome.*failed-again|failed-again.*retry_outcome/)
    expect(written).toMatch(/circuit_opened/)
    expect(written).toMatch(/webhook_reconciler_outcomes_total\{outcome="recovered"\} [1-9]/)
    expect(written).toContain('webhook_reconciler_retries_total{result="already-resolved"}')
    expect([...canaries.keys()].filter((name) => name.startsWith('token ')).length).toBeGreaterThan(2)
    expect([...canaries.keys()].filter((name) => name.startsWith('assertion ')).length).toBeGreaterThan(2)
  })
})

describe('this test can fail', () => {
  test('a log path that writes what the platform answered is found out', async () => {
    const leaky = (transport: Transport, log: Log): Transport => {
      return async (request) => {
        const answer = await transport(request)
        log.event('receiver_up', { detail: answer.body.slice(0, 3000) })
        return answer
      }
    }
    const { written, canaries } = await badDay('debug', leaky)
    const leaked = findCanaries(written, canaries)
    expect(leaked).toEqual(
      expect.arrayContaining(['name', 'receiver body', 'receiver error', 'message of an error', 'text of a page']),
    )
    // The last line of defence knows these by their looks.
    expect(leaked).not.toContain('iban')
    expect(leaked.filter((name) => name.startsWith('a stray JWT'))).toEqual([])
  })

  test('a log path without the last line of defence, that writes what was sent, is found out', async () => {
    const raw: string[] = []
    const leaky = (transport: Transport): Transport => {
      return (request) => {
        raw.push(JSON.stringify(request))
        return transport(request)
      }
    }
    const { written, canaries } = await badDay('debug', leaky)
    expect(findCanaries(written, canaries)).toEqual([])
    const leaked = findCanaries(raw.join('\n'), canaries)
    expect(leaked.filter((name) => name.startsWith('token ')).length).toBeGreaterThan(0)
    expect(leaked.filter((name) => name.startsWith('assertion ')).length).toBeGreaterThan(0)
  })

  const canaries: Canaries = new Map([...Object.entries(planted), ...endsOf('token', strayJwt)])

  test.each([...canaries])('%s is found in every form', (name, value) => {
    const forms = [
      value,
      value.toUpperCase(),
      JSON.stringify({ nested: JSON.stringify({ value }) }),
      `https://host/?q=${encodeURIComponent(value)}`,
      Buffer.from(value).toString('base64'),
      Buffer.from(value).toString('hex'),
    ]
    for (const form of forms) expect(findCanaries(`before ${form} after`, canaries)).toContain(name)
    expect(findCanaries('nothing of it', canaries)).toEqual([])
  })

  test('a line through the real log keeps what only looks like text: that it must never be given', () => {
    let written = ''
    const log = createLog({
      level: 'debug',
      instance: 'test',
      clock: systemClock,
      write: (line) => {
        written += line
      },
    })
    log.event('receiver_up', { detail: `${planted.name} ${iban} Bearer ${strayJwt}` })
    expect(findCanaries(written, canaries)).toEqual(['name'])
    // Each of several, also one that does not look like a token.
    log.event('receiver_up', { detail: 'Bearer short-one, then Bearer short-two' })
    expect(written).not.toMatch(/short-(one|two)/)
  })
})
