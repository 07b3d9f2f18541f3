#!/usr/bin/env -S node --disable-sigusr1
// Starts the program: dist/main.cjs. It loads each file with its code cache, FILE.code, where the image has one.
// Node's own compile cache holds a file as it was before it ran, so without the functions that V8 compiles on their first
// call. The code cache holds those as well: it is made after a start (tools/image/code-cache.ts).
'use strict'
const { hash } = require('node:crypto')
const { readFileSync } = require('node:fs')
const { join } = require('node:path')
const { Script, constants } = require('node:vm')

/** Modules by path: a file runs once. */
const modules = new Map()
/** A code cache begins with the SHA-256 of the file that it was made of: V8 itself compares only the lengths. */
const digestBytes = 32

/** V8's code of this file; undefined without one, and for a file that was changed since. */
function codeOf(path, source) {
  let cached
  try {
    cached = readFileSync(`${path}.code`)
  } catch {
    return undefined
  }
  const isOfSource = cached.subarray(0, digestBytes).equals(hash('sha256', source, 'buffer'))
  return isOfSource ? cached.subarray(digestBytes) : undefined
}

/** `require` of the program's files: one of its own by "./NAME", or a module of Node's. */
function load(name) {
  if (!name.startsWith('./')) return require(name)
  const path = join(__dirname, name)
  const known = modules.get(path)
  if (known !== undefined) return known.exports
  const module = { exports: {} }
  modules.set(path, module)
  const source = readFileSync(path)
  // On the same line, so that stack traces name the lines of the file. The bundler writes ASCII, which latin1 reads fastest
  // and V8 keeps in one byte a character.
  const wrapped = `(function (exports, require, module, __filename, __dirname) {${source.latin1Slice()}\n})`
  // V8 compiles the file where it does not take the code: another version, or other options that change code.
  const script = new Script(wrapped, {
    filename: path,
    cachedData: codeOf(path, source),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  })
  script.runInThisContext()(module.exports, load, module, path, __dirname)
  return module.exports
}

load('./start.cjs')
