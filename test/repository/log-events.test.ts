// The closed set of log events: every log call in the source is one of them, with constant message and known fields, and each is used.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { logEvents, type LogEvent } from '../../src/observe/log-events.ts'

const root = join(import.meta.dirname, '../..')
const levels = new Set(['debug', 'info', 'warn', 'error'])
/** The log itself, and what counts its lines, pass messages through. */
const carriers = new Set(['src/observe/logger.ts', 'src/observe/counted-log.ts'])
const events: Readonly<Record<string, LogEvent>> = logEvents

interface Call {
  place: string
  level: string
  /** Undefined for a message that is not constant. */
  messages: string[] | undefined
  fields: string[]
}

/** The texts that a type stands for; undefined for one that is any text. */
function constants(type: ts.Type): string[] | undefined {
  const parts = type.isUnion() ? type.types : [type]
  const texts = parts.map((part) => (part.isStringLiteral() ? part.value : undefined))
  return texts.every((text) => text !== undefined) ? texts : undefined
}

function isLogCall(node: ts.Node): node is ts.CallExpression & { expression: ts.PropertyAccessExpression } {
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return false
  const { expression, name } = node.expression
  const of = ts.isPropertyAccessExpression(expression) ? expression.name : expression
  return levels.has(name.text) && ts.isIdentifier(of) && /^log(?:ger)?$/.test(of.text)
}

function findCalls(files: readonly string[], checker: ts.TypeChecker, program: ts.Program): Call[] {
  const calls: Call[] = []
  for (const file of files) {
    const source = program.getSourceFile(join(root, file))
    const visit = (node: ts.Node): void => {
      if (source !== undefined && isLogCall(node)) {
        const [message, fields] = node.arguments
        const { line } = source.getLineAndCharacterOfPosition(node.getStart())
        calls.push({
          place: `${file}:${line + 1}`,
          level: node.expression.name.text,
          messages: message && constants(checker.getTypeAtLocation(message)),
          fields:
            fields === undefined
              ? []
              : checker
                  .getTypeAtLocation(fields)
                  .getProperties()
                  .map(({ name }) => name),
        })
      }
      ts.forEachChild(node, visit)
    }
    if (source !== undefined) visit(source)
  }
  return calls
}

function readCalls(): Call[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => readFileSync(path, 'utf8')) as {
    config: { compilerOptions: object }
  }
  const { fileNames, options } = ts.parseJsonConfigFileContent({ ...config, include: ['src'] }, ts.sys, root)
  const program = ts.createProgram(fileNames, options)
  const files = fileNames
    .map((file) => file.slice(root.length + 1))
    .filter((file) => !carriers.has(file) && !/^src\/(?:sandbox|demo)\//.test(file))
  return findCalls(files, program.getTypeChecker(), program)
}

const calls = readCalls()

test('the log calls are found', () => {
  expect(calls.length).toBeGreaterThan(55)
  expect(calls.some(({ place }) => place.startsWith('src/cli/retry-gather.ts'))).toBe(true)
})

test('every message is constant, and an event', () => {
  const strange = calls.filter(({ messages }) => messages?.every((message) => Object.hasOwn(events, message)) !== true)
  expect(strange).toEqual([])
})

test('every level is one of its event', () => {
  const strange = calls.flatMap(({ level, messages = [], place }) =>
    // What is told by warnOnce may be any event as far as its type says.
    messages.length > 5
      ? []
      : messages
          .filter((message) => events[message]?.levels.some((known) => known === level) !== true)
          .map((message) => `${place}: ${level}: ${message}`),
  )
  expect(strange).toEqual([])
})

test('every field that a call names is one of its event', () => {
  const strange = calls.flatMap(({ fields, messages = [], place }) =>
    messages.flatMap((message) =>
      fields.filter((field) => events[message]?.fields.includes(field) !== true).map((field) => `${place}: ${field}`),
    ),
  )
  expect(strange).toEqual([])
})

describe('every event is told somewhere', () => {
  const sources = ts.sys.readDirectory(join(root, 'src'), ['.ts']).filter((file) => !file.endsWith('log-events.ts'))
  const text = sources.map((file) => readFileSync(file, 'utf8')).join('\n')

  test.each(Object.keys(events))('%s', (message) => {
    expect(text).toContain(`'${message}'`)
  })
})

test('no event holds a value in its message', () => {
  expect(Object.keys(events).filter((message) => /[$%{}]|\d{2,}/.test(message))).toEqual([])
})
