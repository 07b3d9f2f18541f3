// Preloads (`node --import`) that stand between the program and a file of its bundle that is being loaded.

/**
 * @param file of the sources: `src/daemon.ts`
 * @param body statements with `source`, the text of the file of the bundle that it is in, and `load`, which loads a text as that file
 */
export function whenLoaded(file: string, body: string): string {
  return `import Module from 'node:module'
    const { _compile } = Module.prototype
    Module.prototype._compile = function (source, ...how) {
      const load = (text) => _compile.call(this, text, ...how)
      if (!source.includes('// ${file}\\n')) return load(source)
      ${body}
    }`
}
