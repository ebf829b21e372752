//! Laws that hold for every script and every expression.

use std::sync::Arc;

use pgbench_script::{
    Client, Expr, Function, Generator, Programs, Protocol, Step, Value, parse, parse_expression,
};
use proptest::prelude::*;

/// What `debug()` writes for an expression, or why it has no value.
fn debugged(expression: &str) -> Result<String, String> {
    let mut programs = Programs::new(Protocol::Simple);
    let script = format!("\\set x debug({expression})");
    programs.add("script", &script).map_err(|error| error.message)?;
    let mut client = Client::new(Arc::new(programs), Generator::new(1), false);
    client.begin(0);
    let mut line = String::new();
    client.step(&mut |debug| line.push_str(debug)).map_err(|error| error.message)?;
    Ok(line.split_once(": ").expect("a place and a value").1.to_owned())
}

/// Compiles a script for both protocols, and steps through what compiles.
fn take_all(script: &str) {
    for protocol in [Protocol::Simple, Protocol::Parameters] {
        let mut programs = Programs::new(protocol);
        if programs.add("script", script).is_err() {
            continue;
        }
        let programs = Arc::new(programs);
        let mut client = Client::new(Arc::clone(&programs), Generator::new(1), true);
        client.begin(0);
        let mut text = String::new();
        while let Ok(step) = client.step(&mut |_| {}) {
            match step {
                Step::Done => break,
                Step::Sql(number) => {
                    let statement = &programs.statements()[number];
                    statement.write_text(&client.variables, &mut text);
                    let parameters = statement.parameters().len();
                    assert!(statement.parameterised().matches('$').count() >= parameters);
                }
                Step::Shell(number) => drop(programs.shells()[number].text(&client.variables)),
                _ => {}
            }
        }
    }
}

/// Pieces of which scripts consist, so that random ones get past the first character.
fn fragment() -> impl Strategy<Value = String> {
    let known = [
        "\\set ",
        "x ",
        ":x ",
        "\\if ",
        "\\elif ",
        "\\else\n",
        "\\endif\n",
        "\\gset ",
        "\\aset ",
        "\\sleep ",
        "10ms",
        "\\shell ",
        "\\setshell ",
        "\\startpipeline\n",
        "\\syncpipeline\n",
        "\\endpipeline\n",
        "SELECT ",
        "1",
        "2.5",
        "9223372036854775808",
        "-",
        "+",
        "*",
        "/",
        "%",
        "(",
        ")",
        ",",
        "<",
        "=",
        "<<",
        "~",
        "|",
        "AND ",
        "NOT ",
        "IS ",
        "NULL ",
        "TRUE ",
        "CASE ",
        "WHEN ",
        "THEN ",
        "ELSE ",
        "END ",
        "random(",
        "hash(",
        "permute(",
        "abs(",
        "power(",
        "'",
        "\"",
        "$$",
        "$a$",
        "E'",
        "\\",
        "\\;",
        "\\:",
        ";",
        ":",
        "::",
        "\n",
        "\\\n",
        "\r\n",
        "--",
        "/*",
        "*/",
        "@",
        "é",
        "\u{0}",
        " ",
    ];
    prop_oneof![8 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => "\\PC"]
}

fn expression() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        (0..=i64::MAX).prop_map(Value::Int),
        Just(Value::Int(i64::MIN)),
        (0.0..1e300_f64).prop_map(Value::Double),
    ]
    .prop_map(Expr::Constant);
    let variable = "[a-z_é][a-z0-9_]{0,5}".prop_map(Expr::Variable);
    prop_oneof![leaf, variable].prop_recursive(6, 40, 4, |inner| {
        let binary = proptest::sample::select(vec![
            Function::Add,
            Function::Subtract,
            Function::Multiply,
            Function::Divide,
            Function::Mod,
            Function::Less,
            Function::LessOrEqual,
            Function::Equal,
            Function::NotEqual,
            Function::BitAnd,
            Function::BitOr,
            Function::BitXor,
            Function::ShiftLeft,
            Function::ShiftRight,
            Function::And,
            Function::Or,
            Function::HashFnv1a,
            Function::HashMurmur2,
            Function::Power,
            Function::Random,
        ]);
        let unary = proptest::sample::select(vec![
            Function::Not,
            Function::Abs,
            Function::Debug,
            Function::Exp,
            Function::Int,
            Function::Double,
            Function::Sqrt,
            Function::Ln,
        ]);
        let several = proptest::sample::select(vec![Function::Least, Function::Greatest]);
        let truth = proptest::sample::select(vec![Value::Null, Value::Boolean(true)]);
        prop_oneof![
            (binary, inner.clone(), inner.clone())
                .prop_map(|(function, left, right)| Expr::Call(function, vec![left, right])),
            (unary, inner.clone())
                .prop_map(|(function, operand)| Expr::Call(function, vec![operand])),
            (inner.clone(), truth).prop_map(|(operand, truth)| Expr::Call(
                Function::Is,
                vec![operand, Expr::Constant(truth)]
            )),
            inner.clone().prop_map(|operand| Expr::Call(
                Function::BitXor,
                vec![Expr::Constant(Value::Int(-1)), operand]
            )),
            (several, prop::collection::vec(inner.clone(), 1..4))
                .prop_map(|(function, operands)| Expr::Call(function, operands)),
            (inner.clone(), inner.clone(), inner).prop_map(|(condition, result, otherwise)| {
                Expr::Call(Function::Case, vec![condition, result, otherwise])
            }),
        ]
    })
}

/// Integers near the limits and near zero, where arithmetic goes wrong.
fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -9..10_i64,
        (0..4_i64).prop_map(|off| i64::MAX - off),
        (0..4_i64).prop_map(|off| i64::MIN + off)
    ]
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        take_all(&text);
    }

    #[test]
    fn no_script_makes_a_client_panic(fragments in prop::collection::vec(fragment(), 0..30)) {
        take_all(&fragments.concat());
    }

    #[test]
    fn an_expression_s_text_is_read_as_the_same_expression(expression in expression()) {
        let text = expression.to_string();
        let read = parse_expression(&text);
        prop_assert_eq!(read.as_ref(), Ok(&expression), "{}", text);
    }

    #[test]
    fn integers_are_exact_or_out_of_range(left in integer(), right in integer()) {
        let (a, b) = (i128::from(left), i128::from(right));
        let exact = [
            ("+", "add", Some(a + b)),
            ("-", "sub", Some(a - b)),
            ("*", "mul", Some(a * b)),
            ("/", "div", a.checked_div(b)),
            ("%", "mod", a.checked_rem(b)),
        ];
        for (symbol, operation, exact) in exact {
            let expected = match exact {
                None => Err("division by zero".to_owned()),
                Some(exact) => i64::try_from(exact)
                    .map(|exact| format!("int {exact}"))
                    .map_err(|_| format!("bigint {operation} out of range")),
            };
            let text = format!("({left}) {symbol} ({right})");
            let found = debugged(&text);
            // A negative number is 0 minus the number, which only the smallest can be without.
            prop_assert_eq!(found, expected, "{}", text);
        }
        for (symbol, holds) in [("<", a < b), ("<=", a <= b), (">", a > b), (">=", a >= b), ("=", a == b), ("<>", a != b)] {
            let text = format!("({left}) {symbol} ({right})");
            prop_assert_eq!(debugged(&text), Ok(format!("boolean {holds}")), "{}", text);
        }
    }

    #[test]
    fn a_permutation_s_places_are_all_different(size in 1_i64..200, seed in any::<i64>()) {
        let place = |value| debugged(&format!("permute({value}, {size}, {seed})"));
        let mut places: Vec<_> = (0..size).map(place).collect();
        places.sort();
        places.dedup();
        prop_assert_eq!(i64::try_from(places.len()), Ok(size));
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    for (open, close) in [
        ("(", ")"),
        ("-", ""),
        ("NOT ", ""),
        ("abs(", ")"),
        ("~", ""),
        ("CASE WHEN TRUE THEN ", " END"),
    ] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        let error = parse_expression(&deep).expect_err("too deep");
        assert!(error.message.contains("nested too deeply"), "{error}");
    }
    let long = format!("1{}", " + 1".repeat(100_000));
    assert!(parse_expression(&long).is_err());
    let conditions = format!("{}{}", "\\if 1\n".repeat(10_000), "\\endif\n".repeat(10_000));
    assert_eq!(parse(&conditions).map(|script| script.commands.len()), Ok(20_000));
}

#[test]
fn a_value_of_the_wrong_type_is_named() {
    // pgbench reads a truth value's memory as a double's here.
    assert_eq!(debugged("abs(TRUE)"), Err("cannot coerce boolean to double".to_owned()));
}
