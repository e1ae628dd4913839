//! Turns tools that Anthropic defined and the client runs into functions for models of other vendors.
//!
//! Their schemas are not in the request, because Anthropic's models know them. Other models get them as published
//! ("Bash tool", "Text editor tool", "Memory tool", "Computer use tool"). The client recognises a call by its name,
//! which is kept. Tools that an upstream runs, and sets of tools, cannot be sent as functions.

use crate::dialect::canonical::Tool;
use crate::dialect::literal::{Json, Text};
use crate::dialect::tree::Node;

struct ClientTool {
    /// The prefix of the types of its versions; the date of the version follows.
    kind: &'static str,
    name: &'static str,
    description: &'static str,
    schema: &'static str,
}

const TOOLS: [ClientTool; 4] = [
    ClientTool {
        kind: "bash_",
        name: "bash",
        description: "Runs a command in a bash shell that stays open between calls.",
        schema: r#"{"type":"object","properties":{"command":{"type":"string","description":"The command to run. Required unless the shell is restarted."},"restart":{"type":"boolean","description":"Restarts the shell."}}}"#,
    },
    ClientTool {
        kind: "text_editor_",
        name: "str_replace_based_edit_tool",
        description: "Views, creates and edits text files.",
        schema: r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string","description":"The file or directory."},"file_text":{"type":"string","description":"For create: the content."},"old_str":{"type":"string","description":"For str_replace: the text to replace, exactly and only once in the file."},"new_str":{"type":"string","description":"For str_replace: the text to put there."},"insert_line":{"type":"integer","description":"For insert: the line after which to insert, 0 for the beginning."},"insert_text":{"type":"string","description":"For insert: the text."},"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: the first and the last line, -1 for the end."}},"required":["command","path"]}"#,
    },
    ClientTool {
        kind: "memory_",
        name: "memory",
        description: "Keeps notes in files under /memories that stay between conversations.",
        schema: r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},"path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"},"old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]}"#,
    },
    ClientTool {
        kind: "computer_",
        name: "computer",
        description: "Uses the screen, the mouse and the keyboard of a computer.",
        schema: r#"{"type":"object","properties":{"action":{"type":"string","enum":["screenshot","left_click","right_click","middle_click","double_click","triple_click","mouse_move","left_click_drag","left_mouse_down","left_mouse_up","cursor_position","type","key","hold_key","scroll","wait","zoom"]},"coordinate":{"type":"array","items":{"type":"integer"},"description":"Where to point: x and y in pixels from the upper left corner."},"start_coordinate":{"type":"array","items":{"type":"integer"},"description":"For left_click_drag: where to begin."},"text":{"type":"string","description":"For type: the text. For key and hold_key: the keys, such as ctrl+s. For clicks and scroll: a key that is held meanwhile."},"scroll_direction":{"type":"string","enum":["up","down","left","right"]},"scroll_amount":{"type":"integer"},"duration":{"type":"number","description":"For hold_key and wait: seconds."},"region":{"type":"array","items":{"type":"integer"},"description":"For zoom: the left, upper, right and lower edge in pixels."}},"required":["action"]}"#,
    },
];

/// Versions of the editor that have another name and a command to undo an edit.
const OLD_EDITORS: [&str; 2] = ["text_editor_20241022", "text_editor_20250124"];
const OLD_EDITOR: &str = "str_replace_editor";

/// Returns the function for a tool, under the name that the tool has in the request.
pub(super) fn as_function<'a>(tool: &Node<'a>) -> Option<Tool<'a>> {
    let kind = tool.str_at("type");
    let is_version = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    let known = TOOLS.iter().find(|known| kind.strip_prefix(known.kind).is_some_and(is_version))?;
    let is_old_editor = OLD_EDITORS.contains(&kind.as_ref());
    let name = if is_old_editor { OLD_EDITOR } else { known.name };
    let description = match (tool.u64_at("display_width_px"), tool.u64_at("display_height_px")) {
        (Some(width), Some(height)) => {
            Text::of(&format!("{} The screen is {width} by {height} pixels.", known.description))
        }
        _ => Text::plain(known.description),
    };
    let parameters = if is_old_editor {
        Json::checked(&known.schema.replace("\"insert\"]", "\"insert\",\"undo_edit\"]")).into_owned()
    } else {
        Json::checked(known.schema)
    };
    Some(Tool::Function {
        name: tool.text_at("name").filter(|name| !name.is_blank()).unwrap_or(Text::plain(name)),
        description: Some(description),
        parameters: Some(parameters),
        strict: None,
    })
}
