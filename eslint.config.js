// Lint rules: the habits of this code that a machine can hold.
import tseslint from 'typescript-eslint'

const fromTheClock = 'Take the time from the injected Clock (src/runtime/clock.ts).'
const fromTheRandom = 'Take randomness from the injected Random (src/runtime/clock.ts).'
const fromArguments = 'Environment, files and standard streams come in as arguments from src/main.ts.'

/** What reaches around the injected clock, randomness and environment. */
const ambient = [
  { selector: "CallExpression[callee.object.name='Date'][callee.property.name='now']", message: fromTheClock },
  { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: fromTheClock },
  { selector: "CallExpression[callee.name='Date']", message: fromTheClock },
  { selector: "MemberExpression[object.name='performance'][property.name='now']", message: fromTheClock },
  { selector: "MemberExpression[object.name='process'][property.name='hrtime']", message: fromTheClock },
  { selector: "MemberExpression[object.name='Temporal'][property.name='Now']", message: fromTheClock },
  { selector: 'CallExpression[callee.name=/^set(Timeout|Interval|Immediate)$/]', message: fromTheClock },
  { selector: "MemberExpression[object.name='AbortSignal'][property.name='timeout']", message: fromTheClock },
  { selector: 'ImportDeclaration[source.value=/^(node:)?timers/]', message: fromTheClock },
  { selector: "MemberExpression[object.name='Math'][property.name='random']", message: fromTheRandom },
  { selector: "CallExpression[callee.name='randomUUID']", message: fromTheRandom },
  { selector: "MemberExpression[property.name='randomUUID']", message: fromTheRandom },
  { selector: "MemberExpression[object.name='process'][property.name='env']", message: fromArguments },
  { selector: 'TSEnumDeclaration', message: 'No enums: use a union of string literals.' },
  { selector: 'ExportDefaultDeclaration', message: 'Named exports only.' },
  { selector: 'ExportAllDeclaration', message: 'No barrel files.' },
]

export default tseslint.config(
  { ignores: ['dist/', 'coverage/', 'node_modules/'] },
  {
    files: ['src/**/*.ts', 'sandbox/**/*.ts', 'tools/**/*.ts', 'test/**/*.ts'],
    extends: [...tseslint.configs.recommendedTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // Our interfaces are closures made by factories: none of their methods knows a `this`.
      '@typescript-eslint/unbound-method': 'off',
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-console': 'error',
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    files: ['src/**/*.ts', 'sandbox/**/*.ts'],
    rules: { 'no-restricted-syntax': ['error', ...ambient] },
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        ...ambient,
        { selector: 'ImportDeclaration[source.value=/^(node:)?(fs|child_process)/]', message: fromArguments },
      ],
    },
  },
  {
    // The places where time, randomness, files and the environment enter.
    files: ['src/runtime/{clock,files,small-file}.ts', 'src/platform/auth/sign-command.ts', 'src/main.ts'],
    rules: { 'no-restricted-syntax': 'off' },
  },
)
