// Draws mutants from the source by a seed: nobody chooses them, so their share is a measure of the tests.
import { createHash } from 'node:crypto'
import ts from 'typescript'
import { formatMutant, isTypeScript, type Mutant } from './mutant.ts'

/** A change of a part of a source. */
interface Change {
  breaks: string
  start: number
  end: number
  replacement: string
}

type Operator = (node: ts.Node) => Omit<Change, 'start' | 'end'>[]

const movedBounds: ReadonlyMap<ts.SyntaxKind, string> = new Map([
  [ts.SyntaxKind.LessThanToken, '<='],
  [ts.SyntaxKind.LessThanEqualsToken, '<'],
  [ts.SyntaxKind.GreaterThanToken, '>='],
  [ts.SyntaxKind.GreaterThanEqualsToken, '>'],
])

function isCondition(node: ts.Node): node is ts.Expression {
  const { parent } = node
  return (ts.isIfStatement(parent) && parent.elseStatement === undefined) || ts.isWhileStatement(parent)
    ? parent.expression === node
    : false
}

/** A statement whose loss leaves the rest as it is; a declaration is none. */
function isRemovable(node: ts.Node): boolean {
  if (ts.isIfStatement(node)) return node.elseStatement === undefined && !ts.isIfStatement(node.parent)
  if (ts.isBreakStatement(node)) return !ts.isCaseClause(node.parent)
  if (ts.isReturnStatement(node)) return node.expression === undefined
  return ts.isExpressionStatement(node) || ts.isContinueStatement(node) || ts.isThrowStatement(node)
}

function isInTry(node: ts.Node): boolean {
  for (let outer = node.parent; !ts.isFunctionLike(outer) && !ts.isSourceFile(outer); outer = outer.parent) {
    if (ts.isTryStatement(outer)) return true
  }
  return false
}

const operators: readonly Operator[] = [
  (node) => (isCondition(node) ? [{ breaks: 'condition negated', replacement: `!(${node.getText()})` }] : []),
  (node) => {
    if (!ts.isBinaryExpression(node)) return []
    const { left, operatorToken, right } = node
    if (operatorToken.kind === ts.SyntaxKind.AmpersandAmpersandToken) {
      return [left, right].map((kept) => ({ breaks: 'condition widened', replacement: kept.getText() }))
    }
    if (operatorToken.kind === ts.SyntaxKind.BarBarToken) {
      return [left, right].map((kept) => ({ breaks: 'condition narrowed', replacement: kept.getText() }))
    }
    const moved = movedBounds.get(operatorToken.kind)
    if (moved === undefined) return []
    return [{ breaks: 'bound moved by one', replacement: `${left.getText()} ${moved} ${right.getText()}` }]
  },
  (node) => (isRemovable(node) ? [{ breaks: 'statement removed', replacement: ';' }] : []),
  (node) => {
    const value = ts.isNumericLiteral(node) ? Number(node.text) : 0
    return value < 2 ? [] : [{ breaks: 'constant halved', replacement: String(value / 2) }]
  },
  (node) => {
    // Whoever awaits the function awaits what it returns, too.
    if (!ts.isAwaitExpression(node) || (ts.isReturnStatement(node.parent) && !isInTry(node))) return []
    return [{ breaks: 'await dropped', replacement: node.expression.getText() }]
  },
  (node) => {
    if (ts.isConditionalExpression(node)) {
      const [yes, no] = [node.whenTrue.getText(), node.whenFalse.getText()]
      return [{ breaks: 'branches swapped', replacement: `${node.condition.getText()} ? ${no} : ${yes}` }]
    }
    if (!ts.isIfStatement(node) || node.elseStatement === undefined) return []
    const [yes, no] = [node.thenStatement.getText(), node.elseStatement.getText()]
    return [{ breaks: 'branches swapped', replacement: `if (${node.expression.getText()}) {${no}} else ${yes}` }]
  },
]

/** Types leave no trace in the program, and what an import does is seen at once. */
function isLeftOut(node: ts.Node): boolean {
  return (
    ts.isTypeNode(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isImportDeclaration(node)
  )
}

function changesIn(node: ts.Node): Change[] {
  if (isLeftOut(node)) return []
  const own = operators.flatMap((operator) => operator(node))
  const children: Change[] = []
  ts.forEachChild(node, (child) => {
    children.push(...changesIn(child))
  })
  return [...own.map((change) => ({ ...change, start: node.getStart(), end: node.end })), ...children]
}

/** The change as whole lines, with as many before them as make them unique. */
function toMutant(file: string, source: string, { breaks, end, replacement, start }: Change): Mutant {
  const endOfLine = source.indexOf('\n', end)
  const to = endOfLine === -1 ? source.length : endOfLine
  let from = source.lastIndexOf('\n', start - 1) + 1
  while (from > 0 && source.split(source.slice(from, to)).length > 2) from = source.lastIndexOf('\n', from - 2) + 1
  return {
    file,
    breaks,
    text: source.slice(from, to),
    replacement: source.slice(from, start) + replacement + source.slice(end, to),
  }
}

export interface Source {
  /** Path below src/. */
  file: string
  text: string
}

function mutantsOf({ file, text }: Source): Mutant[] {
  const tree = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  return tree.statements.flatMap(changesIn).map((change) => toMutant(file, text, change))
}

/**
 * So many of all mutants that the operators make of these sources. The seed and the mutant's own text decide: a change
 * elsewhere leaves the others drawn.
 */
export function drawMutants(sources: readonly Source[], seed: string, count: number): Mutant[] {
  const rankOf = (mutant: Mutant): string =>
    createHash('sha256')
      .update(`${seed} ${formatMutant(mutant)}`)
      .digest('hex')
  return sources
    .flatMap((source) => mutantsOf(source).map((mutant) => ({ mutant, source, rank: rankOf(mutant) })))
    .sort((a, b) => (a.rank < b.rank ? -1 : 1))
    .values()
    .filter(({ mutant, source }) => isTypeScript(source.text.replace(mutant.text, () => mutant.replacement)))
    .take(count)
    .map(({ mutant }) => mutant)
    .toArray()
}
