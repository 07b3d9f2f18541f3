// Services that tests start: found missing or dead at once, and gone when their handle is let go of. Runs with `npm test`.
import { expect, test } from 'vitest'
import { freePort } from '../../bench/process-figures.ts'
import { startService } from './process.ts'

const packageName = 'a-package'

/** A service in Node's own words. */
function serve(port: number): string[] {
  return ['-e', `require('node:http').createServer((_, answer) => answer.end()).listen(${port}, '127.0.0.1')`]
}

test('a program that is missing is reported, with the package that has it', async () => {
  const starting = startService({
    program: '/nowhere/prometheus',
    packageName,
    args: [],
    readyUrl: 'http://127.0.0.1:1',
  })
  await expect(starting).rejects.toThrow(/missing: install Debian's package a-package/)
})

test('a program that ends before it is ready is reported with its output', async () => {
  const args = ['-e', 'console.error("the file is wrong"); process.exitCode = 3']
  const readyUrl = `http://127.0.0.1:${await freePort()}`
  const starting = startService({ program: process.execPath, packageName, args, readyUrl })
  await expect(starting).rejects.toThrow(/ended with 3\n.*the file is wrong/)
})

test('a program is gone when its handle is let go of', async () => {
  const port = await freePort()
  const readyUrl = `http://127.0.0.1:${port}`
  const service = await startService({ program: process.execPath, packageName, args: serve(port), readyUrl })
  expect((await fetch(readyUrl)).status).toBe(200)
  await service[Symbol.asyncDispose]()
  await expect(fetch(readyUrl)).rejects.toThrow(/fetch failed/)
})
