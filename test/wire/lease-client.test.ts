// The Lease over HTTPS: what is sent, what each refusal becomes, and a token that rotates.
import { readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import {
  clusterAccess,
  createLeaseClient,
  LeaseFailure,
  type Lease,
  type LeaseClient,
  type LeaseFailureReason,
} from '../../src/leader-election/lease-client.ts'
import { systemClock, type Clock } from '../../src/runtime/clock.ts'
import { startLeaseApi, type LeaseApi } from '../support/lease-api.ts'
import { toldOf } from '../support/configuration.ts'

const never = new AbortController().signal

const draft: Lease = {
  version: undefined,
  holder: 'one_1',
  durationMs: 1500,
  transitions: 0,
  acquireTime: '2026-01-15T12:00:00.123Z',
  renewTime: '2026-01-15T12:00:00.000Z',
  annotations: {},
  object: {},
}

interface Scene extends AsyncDisposable {
  api: LeaseApi
  client: LeaseClient
}

async function startScene(leaseDurationMs = 60_000, clock = systemClock): Promise<Scene> {
  const api = await startLeaseApi()
  const access = clusterAccess({ env: api.env, readFile: (path) => readFileSync(path, 'utf8') }, api.folder)
  const client = createLeaseClient({ access, leaseName: 'shared', leaseDurationMs, clock, version: '1.2.3' })
  return {
    api,
    client,
    async [Symbol.asyncDispose]() {
      await client.close()
      await api[Symbol.asyncDispose]()
    },
  }
}

async function failureOf(promise: Promise<unknown>): Promise<LeaseFailure> {
  try {
    await promise
  } catch (error) {
    if (error instanceof LeaseFailure) return error
    throw error
  }
  throw new Error('it succeeded')
}

test('a Lease without a specification, as a person may make it, has no holder, and stays so when it is written', async () => {
  await using scene = await startScene()
  const { api, client } = scene
  await client.write(draft, never)
  api.edit((lease) => {
    Reflect.deleteProperty(lease, 'spec')
    Reflect.deleteProperty(lease.metadata, 'annotations')
  })
  const read = await client.read(never)
  expect(read).toMatchObject({ holder: '', transitions: 0, annotations: {} })
  expect([read?.durationMs, read?.acquireTime, read?.renewTime]).toEqual([undefined, undefined, undefined])
  if (read !== undefined) await client.write(read, never)
  expect(api.lease()?.spec).toEqual({ holderIdentity: '', leaseTransitions: 0 })
})

test('a Lease is created, read and replaced; times have six decimals, durations whole seconds', async () => {
  await using scene = await startScene()
  const { api, client } = scene
  expect(await client.read(never)).toBeUndefined()
  const created = await client.write(draft, never)
  expect(api.lease()).toMatchObject({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'shared', namespace: 'test' },
    spec: {
      holderIdentity: 'one_1',
      leaseDurationSeconds: 2,
      leaseTransitions: 0,
      acquireTime: '2026-01-15T12:00:00.123000Z',
      renewTime: '2026-01-15T12:00:00.000000Z',
    },
  })
  expect(await client.read(never)).toEqual(created)
  expect(created.durationMs).toBe(2000)
  await client.write({ ...created, holder: 'two_2', transitions: 1 }, never)
  expect(api.lease()?.spec).toMatchObject({ holderIdentity: 'two_2', leaseTransitions: 1 })
})

test('the version that was read decides: of two writers one wins, and the other has a conflict', async () => {
  await using scene = await startScene()
  const created = await scene.client.write(draft, never)
  expect((await failureOf(scene.client.write(draft, never))).reason).toBe('conflict')
  const won = await scene.client.write({ ...created, holder: 'two_2' }, never)
  expect((await failureOf(scene.client.write({ ...created, holder: 'three' }, never))).reason).toBe('conflict')
  expect(await scene.client.read(never)).toEqual(won)
})

test('labels, annotations and fields of other programs go back unchanged', async () => {
  await using scene = await startScene()
  await scene.client.write(draft, never)
  scene.api.edit(({ metadata, spec }) => {
    metadata.labels = { team: 'a' }
    metadata.annotations = { other: 'x' }
    Object.assign(spec, { strategy: 'OldestEmulationVersion' })
  })
  const read = await scene.client.read(never)
  if (read === undefined) throw new Error('there is a lease')
  await scene.client.write({ ...read, annotations: { ...read.annotations, ours: 'y' } }, never)
  expect(scene.api.lease()?.metadata).toMatchObject({ labels: { team: 'a' }, annotations: { other: 'x', ours: 'y' } })
  expect(scene.api.lease()?.spec).toHaveProperty('strategy', 'OldestEmulationVersion')
})

test.each([0, -1, undefined])('a duration of %s seconds is none', async (seconds) => {
  await using scene = await startScene()
  await scene.client.write(draft, never)
  scene.api.edit(({ spec }) => {
    delete spec.leaseDurationSeconds
    if (seconds !== undefined) spec.leaseDurationSeconds = seconds
  })
  const read = await scene.client.read(never)
  expect(read).toMatchObject({ holder: 'one_1', durationMs: undefined })
})

test('a token that was rotated is used at once, and the old one never again', async () => {
  await using scene = await startScene()
  await scene.client.write(draft, never)
  await scene.api.rotate('token-2')
  await scene.client.read(never)
  expect(scene.api.tokens).toEqual(['token-1', 'token-2'])
})

describe('a refusal', () => {
  test.each<[LeaseApi['fault'], 'reads' | 'creates' | 'replaces', LeaseFailureReason, ...string[]]>([
    [() => 401, 'reads', 'unauthorized', 'check the projected volume', 'test/shared'],
    [() => 403, 'reads', 'forbidden', 'bind a Role with get, create and update', 'test/shared'],
    [() => 429, 'reads', 'throttled', 'overloaded', 'test/shared'],
    [() => 500, 'reads', 'server-error', 'look at the API server', 'test/shared'],
    [() => 422, 'reads', 'invalid', 'leaderElection.leaseName', 'test/shared'],
    // A response that is no Lease.
    [() => 200, 'reads', 'invalid', 'KUBERNETES_SERVICE_HOST'],
    // The Lease has gone, or there is no such namespace.
    [() => 404, 'replaces', 'conflict'],
    [() => 404, 'creates', 'invalid', 'leaderElection.leaseName'],
    [() => 'lost', 'reads', 'unreachable', 'check the network policy'],
    [() => 'silent', 'reads', 'unreachable', 'check the network policy'],
  ])('%s to who %s is %s, with advice and without the token', async (fault, act, reason, ...advice) => {
    await using scene = await startScene(fault() === 'silent' ? 600 : undefined)
    const { api, client } = scene
    const lease = act === 'replaces' ? await client.write(draft, never) : draft
    api.fault = fault
    const failure = await failureOf(act === 'reads' ? client.read(never) : client.write(lease, never))
    expect(failure.reason).toBe(reason)
    for (const text of advice) expect(failure.message).toContain(text)
    expect(failure.message).not.toContain('token-1')
  })

  test('a call that hangs leaves half of the deadline for another one', async () => {
    const asked: number[] = []
    const clock: Clock = {
      ...systemClock,
      timer(ms, act) {
        asked.push(ms)
        return systemClock.timer(ms, act)
      },
    }
    await using scene = await startScene(60_000, clock)
    await scene.client.read(never)
    expect(asked).toContain(20_000)
  })

  test('a lost answer may hide a write', async () => {
    await using scene = await startScene()
    scene.api.fault = () => 'lost'
    expect((await failureOf(scene.client.write(draft, never))).reason).toBe('unreachable')
    expect(scene.api.lease()?.spec.holderIdentity).toBe('one_1')
  })

  test.each([
    ['token', undefined],
    ['token', '\n'],
    ['token', 'tok\ntok'],
    ['token', 'tok\u20acn'],
    ['ca.crt', '\n'],
  ])('a %s that holds %j is named too: nothing is sent by it, and the right one works again', async (file, text) => {
    await using scene = await startScene()
    const path = `${scene.api.folder}/${file}`
    const right = readFileSync(path, 'utf8')
    await (text === undefined ? rm(path) : writeFile(path, text))
    for (let tries = 0; tries < 3; tries += 1) {
      const failure = await failureOf(scene.client.read(never))
      expect([failure.reason, failure.message]).toEqual(['credentials', expect.stringContaining(`/${file}`)])
    }
    expect(scene.api.tokens).toEqual([])
    await writeFile(path, right)
    expect(await scene.client.read(never)).toBeUndefined()
  })

  test('another authority is a failure of TLS, and the right one works again', async () => {
    await using scene = await startScene()
    const right = readFileSync(`${scene.api.folder}/ca.crt`, 'utf8')
    await using other = await startLeaseApi()
    await writeFile(`${scene.api.folder}/ca.crt`, readFileSync(`${other.folder}/ca.crt`))
    const failure = await failureOf(scene.client.read(never))
    expect([failure.reason, failure.message]).toEqual(['unreachable', expect.stringContaining('(tls, ')])
    await writeFile(`${scene.api.folder}/ca.crt`, right)
    expect(await scene.client.read(never)).toBeUndefined()
  })
})

describe('the access of a pod', () => {
  const files = { '/sa/token': 'token', '/sa/ca.crt': 'ca', '/sa/namespace': 'mine\n' }
  const access = (env: Record<string, string>, known: Record<string, string> = files): unknown =>
    clusterAccess(
      {
        env,
        readFile(path) {
          const text = known[path]
          if (text === undefined) throw new Error('ENOENT')
          return text
        },
      },
      '/sa',
    )

  test.each([
    [{ KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '6443' }, 'https://10.0.0.1:6443'],
    [{ KUBERNETES_SERVICE_HOST: 'fd00::1' }, 'https://[fd00::1]:443'],
  ])('%j', (env, origin) => {
    expect(access(env)).toMatchObject({ origin, namespace: 'mine' })
  })

  test('outside of a pod it is a problem of the configuration', () => {
    expect(toldOf(() => access({}))).toEqual([
      expect.stringMatching(/^leaderElection\.kind .*KUBERNETES_SERVICE_HOST is not set/),
    ])
  })

  test.each(['token', 'ca.crt', 'namespace'])('without its file %s too', (name) => {
    const known = Object.fromEntries(Object.entries(files).filter(([path]) => path !== `/sa/${name}`))
    expect(toldOf(() => access({ KUBERNETES_SERVICE_HOST: 'h' }, known))).toEqual([
      expect.stringMatching(new RegExp(`^leaderElection\\.kind .*/sa has no readable file ${name}:`)),
    ])
  })
})
