// Preloads (`node --import`) that stand between the program and a file of its bundle that is being loaded.

/**
 * @param file as it is called in dist/
 * @param body statements with `source`, the file's text, and `script`, which makes the script of a text; they return the script
 */
export function whenLoaded(file: string, body: string): string {
  return `import vm from 'node:vm'
    const { Script } = vm
    vm.Script = function (source, options) {
      const script = (text) => new Script(text, options)
      if (!options.filename.endsWith('/${file}')) return script(source)
      ${body}
    }`
}
